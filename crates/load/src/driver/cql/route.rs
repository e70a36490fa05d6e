//! From a request to the nodes that have its row.

use std::sync::Arc;

use super::encode::Prepared;
use super::kind::Kind;
use super::murmur3;
use super::ring::{Replicas, Ring};
use crate::sql::{Param, Params};

/// The bytes of a length as parameters are written.
const LENGTH_BYTES: usize = 4;

/// Where the key of a statement's row is among its parameters, and who has such rows.
#[derive(Debug)]
pub(super) struct Route {
    /// Number of the parameter and type of each column of the key.
    columns: Box<[(usize, Kind)]>,
    replicas: Arc<Replicas>,
}

impl Route {
    /// `None` for a statement that is about no single row that is known before it is run.
    pub(super) fn of(prepared: &Prepared, ring: &Ring) -> Option<Self> {
        if prepared.keys.is_empty() {
            return None;
        }
        let column = |&index: &u16| Some((usize::from(index), prepared.kinds.get(usize::from(index))?.clone()));
        let columns = prepared.keys.iter().map(column).collect::<Option<_>>()?;
        Some(Self { columns, replicas: Arc::clone(ring.replicas(&prepared.keyspace)?) })
    }

    /// The nodes that have the row, its first place first; none where the parameters are no key. `key` is a buffer.
    pub(super) fn nodes(&self, params: &Params, key: &mut Vec<u8>) -> &[u16] {
        token(&self.columns, params, key).map_or(&[], |token| self.replicas.find(token))
    }
}

/// A key of one column is its bytes; of several, each has its length in 16 bits in front of it and a zero behind it.
fn token(columns: &[(usize, Kind)], params: &Params, key: &mut Vec<u8>) -> Option<i64> {
    key.clear();
    for (index, kind) in columns {
        let start = key.len();
        match params.get(*index)? {
            Param::Null => return None,
            param => kind.put(param, key)?,
        }
        if columns.len() == 1 {
            return Some(murmur3::token(&key[LENGTH_BYTES..]));
        }
        key.drain(start..start + LENGTH_BYTES - 2);
        key.push(0);
    }
    Some(murmur3::token(key))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(columns: &[(usize, Kind)], fill: impl FnOnce(&mut Params)) -> (Option<i64>, Vec<u8>) {
        let (mut params, mut key) = (Params::default(), b"left over".to_vec());
        fill(&mut params);
        (token(columns, &params, &mut key), key)
    }

    #[test]
    fn a_key_of_one_column_is_its_bytes() {
        let (token, _) = found(&[(1, Kind::Text)], |params| {
            params.push_int(7);
            params.push_text("123");
        });
        assert_eq!(token, Some(-7_468_325_962_851_647_638));
        let (token, _) = found(&[(0, Kind::Int)], |params| params.push_int(0));
        assert_eq!(token, Some(-3_485_513_579_396_041_028));
        assert_eq!(token, Some(murmur3::token(&[0; 4])));
    }

    #[test]
    fn the_columns_of_a_key_are_framed() {
        let (token, key) = found(&[(1, Kind::Int), (0, Kind::Text)], |params| {
            params.push_text("ab");
            params.push_int(5);
        });
        assert_eq!(key, b"\0\x04\0\0\0\x05\0\0\x02ab\0");
        assert_eq!(token, Some(murmur3::token(&key)));
    }

    #[test]
    fn what_is_no_key_has_no_token() {
        assert_eq!(found(&[(0, Kind::Int)], |params| params.push_text("x")).0, None);
        assert_eq!(found(&[(0, Kind::Int)], Params::push_null).0, None);
        assert_eq!(found(&[(1, Kind::Int)], |params| params.push_int(1)).0, None);
    }
}
