//! From the server's error packets and the system's errors to [`Failure`]s.

use crate::driver::{ErrorClass, Failure};

/// Reads the payload of an error packet, of which the first byte said so.
pub(super) fn read_error(payload: &[u8]) -> Failure {
    let Some((number, rest)) = payload.get(1..).and_then(<[u8]>::split_first_chunk) else {
        return Failure::protocol("an error without a number");
    };
    let number = u16::from_le_bytes(*number);
    // Before the handshake is over there is no SQLSTATE.
    let (state, message) = match rest.split_first() {
        Some((b'#', rest)) => rest.split_at(rest.len().min(5)),
        _ => (&b""[..], rest),
    };
    Failure {
        class: class_of(number, state),
        code: Some(number.to_string()),
        message: String::from_utf8_lossy(message).into_owned(),
        word: None,
    }
}

/// Whether the server ends the connection after this error.
pub(super) fn is_fatal(failure: &Failure) -> bool {
    // A packet that is longer than max_allowed_packet is not read to its end.
    failure.class == ErrorClass::Connect || failure.code.as_deref() == Some("1153")
}

/// The class of an error number (MySQL's and MariaDB's lists of server errors), or else of the SQLSTATE's group: many
/// numbers share a state that says nothing ("HY000"), some one that says something else.
fn class_of(number: u16, state: &[u8]) -> ErrorClass {
    match number {
        // Shutdown, aborted or killed connections, broken reads and writes.
        1053 | 1077..=1080 | 1152 | 1158..=1161 | 1184 | 1927 | 2006 | 2013 | 3169 | 4031 => ErrorClass::Connect,
        // Lock wait, query interrupted, limits of a statement's time, NOWAIT.
        1205 | 1317 | 1969 | 3024 | 3572 => ErrorClass::Timeout,
        // Record changed since it was read, deadlock, XA deadlock, certification of a replication group.
        1020 | 1213 | 1614 | 3101 => ErrorClass::Serialization,
        // Keys, NULL, no default, foreign keys, CHECK (MySQL, MariaDB).
        1022 | 1048 | 1062 | 1169 | 1216 | 1217 | 1364 | 1451 | 1452 | 1557 | 1586 | 1761 | 1762 | 3819 | 4025 => {
            ErrorClass::Constraint
        }
        // Read lock, options that allow no writes, read-only transaction or server.
        1223 | 1290 | 1792 | 1836 => ErrorClass::ReadOnly,
        // Disk, files, memory, connections, table full, threads, limits of a user, locks, prepared statements, log.
        1021 | 1026 | 1030 | 1037 | 1038 | 1040 | 1041 | 1047 | 1114 | 1135 | 1203 | 1206 | 1226 | 1461 | 1534 => {
            ErrorClass::Resource
        }
        // Access denied in its forms, hosts, columns, passwords that expired, locked accounts.
        1044 | 1045 | 1129 | 1130 | 1142 | 1143 | 1227 | 1370 | 1698 | 1820 | 1862 | 3118 | 4151 => {
            ErrorClass::Permission
        }
        // Packets that came in the wrong order, or are no packets.
        1043 | 1153 | 1156 | 1157 => ErrorClass::Protocol,
        // Wrong arguments, not for prepared statements, wrong value, unknown or read-only variable.
        1193 | 1210 | 1231 | 1232 | 1238 | 1295 | 1366 => ErrorClass::Statement,
        _ => match state.get(..2) {
            Some(b"08") => ErrorClass::Connect,
            Some(b"23") => ErrorClass::Constraint,
            Some(b"28") => ErrorClass::Permission,
            Some(b"40") => ErrorClass::Serialization,
            Some(b"21" | b"22" | b"24" | b"25" | b"3D" | b"42") => ErrorClass::Statement,
            _ => ErrorClass::Other,
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_group_has_its_class() {
        let expected = [
            (1213, "40001", ErrorClass::Serialization),
            (1020, "HY000", ErrorClass::Serialization),
            (1205, "HY000", ErrorClass::Timeout),
            (3024, "HY000", ErrorClass::Timeout),
            (1969, "70100", ErrorClass::Timeout),
            (1317, "70100", ErrorClass::Timeout),
            (1062, "23000", ErrorClass::Constraint),
            (1451, "23000", ErrorClass::Constraint),
            (1452, "23000", ErrorClass::Constraint),
            (4025, "23000", ErrorClass::Constraint),
            (1290, "HY000", ErrorClass::ReadOnly),
            (1836, "HY000", ErrorClass::ReadOnly),
            (1040, "08004", ErrorClass::Resource),
            (1041, "HY000", ErrorClass::Resource),
            (1021, "HY000", ErrorClass::Resource),
            (1114, "HY000", ErrorClass::Resource),
            (1135, "HY000", ErrorClass::Resource),
            (1064, "42000", ErrorClass::Statement),
            (1146, "42S02", ErrorClass::Statement),
            (1054, "42S22", ErrorClass::Statement),
            (1264, "22003", ErrorClass::Statement),
            (1045, "28000", ErrorClass::Permission),
            (1142, "42000", ErrorClass::Permission),
            (1044, "42000", ErrorClass::Permission),
            (1053, "08S01", ErrorClass::Connect),
            (2006, "HY000", ErrorClass::Connect),
            (2013, "HY000", ErrorClass::Connect),
            (1644, "45000", ErrorClass::Other),
            (9999, "", ErrorClass::Other),
        ];
        for (number, state, class) in expected {
            assert_eq!(class_of(number, state.as_bytes()), class, "{number} {state}");
        }
    }

    #[test]
    fn an_error_packet_gives_number_and_words() {
        let failure = read_error(b"\xff\x26\x04#23000Duplicate entry");
        assert_eq!((failure.class, failure.to_string()), (ErrorClass::Constraint, "1062 Duplicate entry".to_owned()));
        let failure = read_error(b"\xff\x10\x04Too many connections");
        assert_eq!(
            (failure.class, failure.to_string()),
            (ErrorClass::Resource, "1040 Too many connections".to_owned())
        );
        assert_eq!(read_error(b"\xff\x10").class, ErrorClass::Protocol);
    }
}
