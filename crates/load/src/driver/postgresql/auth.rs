//! The start of a connection: startup message, authentication, and what the server says before it is ready.

use std::io;

use postgres_protocol::authentication::md5_hash;
use postgres_protocol::authentication::sasl::{ChannelBinding, SCRAM_SHA_256, SCRAM_SHA_256_PLUS, ScramSha256};
use postgres_protocol::message::frontend;
use tokio::io::{AsyncRead, AsyncWrite};

use super::failure::ServerError;
use super::wire::Wire;
use crate::driver::access::Access;
use crate::driver::{ErrorClass, Failure};

/// The work of more rounds would keep all users of a thread waiting for seconds, and no time-out ends it.
const ROUNDS_MAX: u64 = 1_000_000;

/// What a cancel request must show.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Key {
    pub(super) process: i32,
    pub(super) secret: i32,
}

/// Enters the server; `end_point` is the hash of its certificate under TLS.
pub(super) async fn enter<S>(wire: &mut Wire<S>, access: &Access, end_point: Option<Vec<u8>>) -> Result<Key, Failure>
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let parameters = [
        ("user", access.user.as_str()),
        ("database", &access.database),
        ("application_name", &access.application_name),
        ("client_encoding", "UTF8"),
    ];
    frontend::startup_message(parameters, &mut wire.out)
        .map_err(|_| Failure::statement("user, database or application name holds a NUL character"))?;
    wire.send().await.map_err(|error| Failure::lost("the start of the connection", &error))?;
    authenticate(wire, access, end_point).await?;
    let mut key = Key::default();
    loop {
        match next(wire).await? {
            (b'Z', _) => return Ok(key),
            (b'K', body) => key = read_key(body).ok_or_else(|| Failure::protocol("a cancel key of another length"))?,
            // Settings, notices, and the answer to an offer of protocol options.
            (b'S' | b'N' | b'v', _) => {}
            (tag, _) => return Err(unexpected(tag)),
        }
    }
}

fn read_key(body: &[u8]) -> Option<Key> {
    let (process, rest) = body.split_first_chunk()?;
    let secret = rest.try_into().ok()?;
    Some(Key { process: i32::from_be_bytes(*process), secret: i32::from_be_bytes(secret) })
}

async fn authenticate<S>(wire: &mut Wire<S>, access: &Access, end_point: Option<Vec<u8>>) -> Result<(), Failure>
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    loop {
        let (kind, data) = request(wire).await?;
        match kind {
            0 => return Ok(()),
            3 => put_password(wire, password(access)?.as_bytes())?,
            5 => {
                let salt = data.try_into().map_err(|_| Failure::protocol("an md5 salt of another length"))?;
                let hash = md5_hash(access.user.as_bytes(), password(access)?.as_bytes(), salt);
                put_password(wire, hash.as_bytes())?;
            }
            10 => {
                let offers_binding = offers(data, SCRAM_SHA_256_PLUS);
                if !offers_binding && !offers(data, SCRAM_SHA_256) {
                    return Err(Failure::protocol("the server offers no SASL mechanism but unknown ones"));
                }
                return scram(wire, password(access)?, binding(offers_binding, end_point)).await;
            }
            kind => {
                let name = match kind {
                    2 => "Kerberos",
                    7 | 8 => "GSSAPI",
                    9 => "SSPI",
                    _ => "an unknown kind of",
                };
                let message = format!("the server asks for {name} authentication; passwords are what is supported");
                return Err(Failure::without_code(ErrorClass::Permission, message));
            }
        }
        wire.send().await.map_err(|error| Failure::lost("authentication", &error))?;
    }
}

fn offers(mechanisms: &[u8], name: &str) -> bool {
    mechanisms.split(|&byte| byte == 0).any(|mechanism| mechanism == name.as_bytes())
}

/// The mechanism to choose and how its messages say so (RFC 5802, section 6).
fn binding(is_offered: bool, end_point: Option<Vec<u8>>) -> (&'static str, ChannelBinding) {
    match end_point {
        Some(hash) if is_offered => (SCRAM_SHA_256_PLUS, ChannelBinding::tls_server_end_point(hash)),
        Some(_) => (SCRAM_SHA_256, ChannelBinding::unrequested()),
        None => (SCRAM_SHA_256, ChannelBinding::unsupported()),
    }
}

async fn scram<S>(wire: &mut Wire<S>, password: &str, binding: (&str, ChannelBinding)) -> Result<(), Failure>
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let lost = |error: io::Error| Failure::lost("authentication", &error);
    // Its errors speak of the server's messages, never of the password.
    let broken = |error: io::Error| Failure::protocol(format!("SCRAM authentication: {error}"));
    let (mechanism, binding) = binding;
    let mut scram = ScramSha256::new(password.as_bytes(), binding);
    frontend::sasl_initial_response(mechanism, scram.message(), &mut wire.out).map_err(broken)?;
    wire.send().await.map_err(lost)?;
    let (kind, data) = request(wire).await?;
    expect_kind(kind, 11)?;
    check_rounds(data)?;
    scram.update(data).map_err(broken)?;
    frontend::sasl_response(scram.message(), &mut wire.out).map_err(broken)?;
    wire.send().await.map_err(lost)?;
    let (kind, data) = request(wire).await?;
    expect_kind(kind, 12)?;
    scram.finish(data).map_err(broken)?;
    let (kind, _) = request(wire).await?;
    expect_kind(kind, 0)
}

/// Of the server's challenge; what is none is left to whoever reads it.
fn check_rounds(challenge: &[u8]) -> Result<(), Failure> {
    let rounds = challenge.split(|&byte| byte == b',').find_map(|part| part.strip_prefix(b"i="));
    let rounds =
        rounds.and_then(|digits| std::str::from_utf8(digits).ok()).and_then(|digits| digits.parse::<u64>().ok());
    match rounds {
        Some(rounds) if rounds > ROUNDS_MAX => {
            let message =
                format!("SCRAM authentication: the server asks for {rounds} rounds, {ROUNDS_MAX} is the most");
            Err(Failure::without_code(ErrorClass::Permission, message))
        }
        _ => Ok(()),
    }
}

fn expect_kind(kind: u32, expected: u32) -> Result<(), Failure> {
    if kind == expected {
        return Ok(());
    }
    Err(Failure::protocol(format!("authentication: message {kind} instead of {expected}")))
}

fn password(access: &Access) -> Result<&str, Failure> {
    let message = "the server asks for a password, and none is given";
    access.password.as_deref().ok_or_else(|| Failure::without_code(ErrorClass::Permission, message))
}

fn put_password<S>(wire: &mut Wire<S>, password: &[u8]) -> Result<(), Failure> {
    frontend::password_message(password, &mut wire.out)
        .map_err(|_| Failure::without_code(ErrorClass::Permission, "the password holds a NUL character"))
}

/// The next authentication request: its kind and data.
async fn request<S>(wire: &mut Wire<S>) -> Result<(u32, &[u8]), Failure>
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let (tag, body) = next(wire).await?;
    match body.split_first_chunk() {
        Some((kind, data)) if tag == b'R' => Ok((u32::from_be_bytes(*kind), data)),
        _ => Err(unexpected(tag)),
    }
}

/// The next message that is no error.
async fn next<S>(wire: &mut Wire<S>) -> Result<(u8, &[u8]), Failure>
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    match wire.next().await {
        Ok((b'E', body)) => Err(ServerError::read(body).failure),
        Ok(message) => Ok(message),
        Err(error) if error.kind() == io::ErrorKind::InvalidData => Err(unexpected_words()),
        Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {
            Err(Failure::without_code(ErrorClass::Resource, error.to_string()))
        }
        Err(error) => Err(Failure::lost("the start of the connection", &error)),
    }
}

fn unexpected_words() -> Failure {
    Failure::protocol("what answers there does not speak PostgreSQL's protocol")
}

fn unexpected(tag: u8) -> Failure {
    Failure::protocol(format!("unexpected message {:?} at the start of the connection", char::from(tag)))
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt, duplex};

    use super::*;

    /// What `enter` says to a server that sends all of `answers`, and what that server received.
    async fn enter_with(password: Option<&str>, answers: &[u8]) -> (Result<Key, Failure>, Vec<u8>) {
        let (near, mut far) = duplex(4096);
        far.write_all(answers).await.expect("a large enough pipe");
        let password = password.map(str::to_owned);
        let access = Access { user: "me".to_owned(), database: "db".to_owned(), password, ..Access::default() };
        let mut wire = Wire::new(near);
        let result = enter(&mut wire, &access, None).await;
        drop(wire);
        let mut received = Vec::new();
        far.read_to_end(&mut received).await.expect("an open pipe");
        (result, received)
    }

    const READY: &[u8] = b"R\0\0\0\x08\0\0\0\0S\0\0\0\x08a\0b\0K\0\0\0\x0c\0\0\0\x05\0\0\0\x06Z\0\0\0\x05I";

    #[tokio::test]
    async fn without_a_question_the_server_is_ready() {
        let (result, received) = enter_with(None, READY).await;
        assert_eq!(result, Ok(Key { process: 5, secret: 6 }));
        assert!(received.starts_with(b"\0\0\0\x44\0\x03\0\0user\0me\0database\0db\0"), "{received:?}");
    }

    #[tokio::test]
    async fn passwords_go_as_the_server_asks() {
        let plain = [b"R\0\0\0\x08\0\0\0\x03", READY].concat();
        let (result, received) = enter_with(Some("secret"), &plain).await;
        assert!(result.is_ok());
        assert!(received.ends_with(b"p\0\0\0\x0bsecret\0"));
        let md5 = [b"R\0\0\0\x0c\0\0\0\x05abcd", READY].concat();
        let (result, received) = enter_with(Some("secret"), &md5).await;
        assert!(result.is_ok());
        assert!(received.windows(8).any(|part| part == b"p\0\0\0\x28md5"));
    }

    #[tokio::test]
    async fn refusals_are_clear_and_hold_no_password() {
        let cases: [(Option<&str>, &[u8], &str); 8] = [
            (None, b"R\0\0\0\x08\0\0\0\x03", "the server asks for a password, and none is given"),
            (Some("a\0b"), b"R\0\0\0\x08\0\0\0\x03", "the password holds a NUL character"),
            (
                Some("secret"),
                b"R\0\0\0\x08\0\0\0\x07",
                "the server asks for GSSAPI authentication; passwords are what is supported",
            ),
            (Some("secret"), b"R\0\0\0\x0b\0\0\0\x0aX\0\0", "the server offers no SASL mechanism but unknown ones"),
            (Some("secret"), b"E\0\0\0\x1bSFATAL\0C28P01\0Mwrong\0\0\0", "28P01 wrong"),
            (Some("secret"), b"HTTP/1.1 400 Bad Request", "what answers there does not speak PostgreSQL's protocol"),
            (Some("secret"), b"", "the start of the connection: the server closed the connection"),
            (Some("secret"), b"X\0\0\0\x04", "unexpected message 'X' at the start of the connection"),
        ];
        for (password, answers, expected) in cases {
            let (near, mut far) = duplex(4096);
            far.write_all(answers).await.expect("a large enough pipe");
            far.shutdown().await.expect("an open pipe");
            let password = password.map(str::to_owned);
            let access = Access { user: "me".to_owned(), password, ..Access::default() };
            let failure = enter(&mut Wire::new(near), &access, None).await.expect_err("a refusal");
            assert_eq!(failure.to_string(), expected);
        }
    }

    #[tokio::test]
    async fn a_server_without_a_process_for_us_is_told_by_its_words() {
        // As a server sends it that cannot fork (`report_fork_failure_to_client`): no message has this form.
        let words = b"Ecould not fork new process for connection: Cannot allocate memory\n\0";
        let failure = enter_with(Some("secret"), words).await.0.expect_err("no process");
        assert_eq!(failure.class, ErrorClass::Resource);
        assert_eq!(failure.message, "could not fork new process for connection: Cannot allocate memory");
    }

    #[tokio::test]
    async fn a_server_cannot_keep_a_thread_at_work() {
        let offer = b"R\0\0\0\x17\0\0\0\x0aSCRAM-SHA-256\0\0";
        let challenge = b"R\0\0\0\x1f\0\0\0\x0br=x,s=AAAA,i=2147483647";
        let (result, _) = enter_with(Some("secret"), &[&offer[..], challenge].concat()).await;
        let text = result.expect_err("too many").message;
        assert_eq!(text, "SCRAM authentication: the server asks for 2147483647 rounds, 1000000 is the most");
        assert_eq!(check_rounds(b"r=x,s=AAAA,i=1000000"), Ok(()));
    }

    #[test]
    fn the_channel_is_bound_when_both_sides_can() {
        let mechanisms = b"SCRAM-SHA-256-PLUS\0SCRAM-SHA-256\0\0";
        assert!(offers(mechanisms, SCRAM_SHA_256_PLUS) && offers(mechanisms, SCRAM_SHA_256));
        assert!(!offers(b"SCRAM-SHA-256\0\0", SCRAM_SHA_256_PLUS));
        assert_eq!(binding(true, Some(vec![1])).0, SCRAM_SHA_256_PLUS);
        assert_eq!(binding(true, None).0, SCRAM_SHA_256);
        assert_eq!(binding(false, Some(vec![1])).0, SCRAM_SHA_256);
    }
}
