//! The nodes of a cluster as one of them tells them: where they are, which tokens are theirs, who has the rows of a keyspace.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use super::placement::{Place, Strategy};
use super::session::{CqlSession, Texts};
use crate::driver::socket::Address;
use crate::driver::{ErrorClass, Failure};

/// Of other partitioners no token is known.
const PARTITIONER: &str = "Murmur3Partitioner";
/// So long a node that did not let us in is not waited for again.
const REST: Duration = Duration::from_secs(10);

const LOCAL: &str = "SELECT data_center, rack, partitioner, tokens FROM system.local";
const PEERS: &str = "SELECT data_center, rack, tokens, native_address, native_port FROM system.peers_v2";
/// As nodes before 4.0 have it: all are at the same port.
const OLD_PEERS: &str = "SELECT data_center, rack, tokens, rpc_address FROM system.peers";
const KEYSPACES: &str = "SELECT keyspace_name, replication FROM system_schema.keyspaces";

/// What a node says of itself, of the others, and of the keyspaces.
#[derive(Debug, Default)]
pub(super) struct Said {
    pub(super) local: Texts,
    pub(super) peers: Texts,
    pub(super) keyspaces: Texts,
}

impl Said {
    /// Asks the node. One that has no such tables, or does not show them to this user, is alone.
    pub(super) async fn ask(session: &mut CqlSession) -> Result<Self, Failure> {
        let local = shown(session.own_rows(LOCAL).await)?.unwrap_or_default();
        let peers = match shown(session.own_rows(PEERS).await)? {
            Some(peers) => peers,
            None => shown(session.own_rows(OLD_PEERS).await)?.unwrap_or_default(),
        };
        let keyspaces =
            if peers.is_empty() { Texts::new() } else { shown(session.own_rows(KEYSPACES).await)?.unwrap_or_default() };
        Ok(Self { local, peers, keyspaces })
    }
}

fn shown(rows: Result<Texts, Failure>) -> Result<Option<Texts>, Failure> {
    match rows {
        Ok(rows) => Ok(Some(rows)),
        Err(failure) if matches!(failure.class, ErrorClass::Statement | ErrorClass::Permission) => Ok(None),
        Err(failure) => Err(failure),
    }
}

/// The node of the url: how it is reached.
#[derive(Clone, Debug)]
pub(super) struct Home {
    pub(super) address: Address,
    pub(super) port: u16,
    /// Where its socket leads to.
    pub(super) ip: Option<IpAddr>,
}

/// A node that a load speaks to.
#[derive(Debug)]
pub(super) struct Node {
    pub(super) address: Address,
    /// When it last did not let us in, in milliseconds since the ring was learnt, plus 1; 0: never.
    refused_ms: AtomicU64,
}

/// The nodes that have the rows of each token.
#[derive(Debug)]
pub(super) struct Replicas {
    tokens: Arc<[i64]>,
    of: Vec<Vec<u16>>,
}

impl Replicas {
    /// Numbers of nodes, the row's first place first.
    pub(super) fn find(&self, token: i64) -> &[u16] {
        let place = self.tokens.partition_point(|own| *own < token);
        // Behind the last token the ring begins again.
        self.of.get(place).or_else(|| self.of.first()).map_or(&[], Vec::as_slice)
    }
}

/// A cluster.
#[derive(Debug)]
pub(super) struct Ring {
    /// The node of the url first.
    pub(super) nodes: Vec<Node>,
    /// Nodes that a load does not speak to, each with the reason.
    pub(super) left_out: Vec<(String, String)>,
    keyspaces: HashMap<String, Arc<Replicas>>,
    learnt: Instant,
}

/// A row of a description, by the columns' numbers.
fn column(row: &[Option<String>], index: usize) -> &str {
    row.get(index).and_then(Option::as_deref).unwrap_or_default()
}

impl Ring {
    pub(super) fn of(said: &Said, home: &Home) -> Self {
        let first = said.local.first().map_or(&[][..], Vec::as_slice);
        let datacenter = column(first, 0);
        let mut ring = Self {
            nodes: vec![Node { address: home.address.clone(), refused_ms: AtomicU64::new(0) }],
            left_out: Vec::new(),
            keyspaces: HashMap::new(),
            learnt: Instant::now(),
        };
        if said.peers.is_empty() || !column(first, 2).ends_with(PARTITIONER) {
            return ring;
        }
        // Nodes as the ring counts them, and their numbers among those that are spoken to.
        let mut places = vec![place(first)];
        let mut numbers = vec![Some(0)];
        let mut owners: Vec<(i64, u16)> = tokens(column(first, 3)).map(|token| (token, 0)).collect();
        for row in &said.peers {
            let node = places.len() as u16;
            places.push(place(row));
            owners.extend(tokens(column(row, 2)).map(|token| (token, node)));
            numbers.push(ring.admit(row, home, datacenter));
        }
        owners.sort_unstable();
        ring.place(&said.keyspaces, &owners, &places, &numbers);
        ring
    }

    /// The number of a peer among the nodes that are spoken to; `None` where it is left out.
    fn admit(&mut self, row: &[Option<String>], home: &Home, datacenter: &str) -> Option<u16> {
        let port = column(row, 4).parse().unwrap_or(home.port);
        let found = column(row, 3).parse::<IpAddr>().ok().map(|ip| ip.to_canonical());
        if found.is_some() && found == home.ip.map(|ip| ip.to_canonical()) && port == home.port {
            return Some(0);
        }
        let why_not = match found {
            None => "it tells no address for clients".to_owned(),
            Some(ip) if ip.is_unspecified() => format!("its address for clients is {ip}"),
            Some(_) if column(row, 0) != datacenter => format!("it is in data center {}", column(row, 0)),
            Some(ip) => home.ip.map_or(String::new(), |own| refused(ip, own)),
        };
        let name = found.map_or_else(|| "a node".to_owned(), |ip| Address::tcp(&ip.to_string(), port).to_string());
        match found {
            Some(ip) if why_not.is_empty() => {
                self.nodes.push(Node { address: Address::tcp(&ip.to_string(), port), refused_ms: AtomicU64::new(0) });
                Some(self.nodes.len() as u16 - 1)
            }
            _ => {
                self.left_out.push((name, why_not));
                None
            }
        }
    }

    /// Works out who has the rows of each keyspace; most have the same replication as others.
    fn place(&mut self, keyspaces: &Texts, owners: &[(i64, u16)], places: &[Place], numbers: &[Option<u16>]) {
        let tokens: Arc<[i64]> = owners.iter().map(|(token, _)| *token).collect();
        let mut known: HashMap<&str, Arc<Replicas>> = HashMap::new();
        for row in keyspaces {
            let text = column(row, 1);
            let Some(strategy) = Strategy::read(text) else { continue };
            let replicas = known.entry(text).or_insert_with(|| {
                let spoken_to = |node: u16| numbers[usize::from(node)];
                let of = strategy.replicas(owners, places, &places[0].datacenter);
                let of = of.into_iter().map(|nodes| nodes.into_iter().filter_map(spoken_to).collect()).collect();
                Arc::new(Replicas { tokens: Arc::clone(&tokens), of })
            });
            self.keyspaces.insert(column(row, 0).to_owned(), Arc::clone(replicas));
        }
    }

    /// Whether there is more than one node to choose from.
    pub(super) fn has_choice(&self) -> bool {
        self.nodes.len() > 1
    }

    /// Who has the rows of a keyspace; `None` where that is not known.
    pub(super) fn replicas(&self, keyspace: &str) -> Option<&Arc<Replicas>> {
        self.keyspaces.get(keyspace)
    }

    /// Notes that a node did not let us in.
    pub(super) fn note_refusal(&self, node: usize) {
        self.nodes[node].refused_ms.store(self.now_ms(), Ordering::Relaxed);
    }

    /// Whether it did not let us in a short while ago.
    pub(super) fn rests(&self, node: usize) -> bool {
        let refused_ms = self.nodes[node].refused_ms.load(Ordering::Relaxed);
        refused_ms > 0 && self.now_ms().saturating_sub(refused_ms) < REST.as_millis() as u64
    }

    fn now_ms(&self) -> u64 {
        self.learnt.elapsed().as_millis() as u64 + 1
    }
}

fn place(row: &[Option<String>]) -> Place {
    Place { datacenter: column(row, 0).to_owned(), rack: column(row, 1).to_owned() }
}

/// Those of a set of texts, as it is shown.
fn tokens(text: &str) -> impl Iterator<Item = i64> {
    text.trim_matches(['[', ']']).split(", ").filter_map(|token| token.parse().ok())
}

/// How far an address reaches.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Reach {
    Machine,
    Site,
    World,
}

impl Reach {
    fn of(ip: IpAddr) -> Self {
        let is_site = match ip {
            IpAddr::V4(ip) => {
                ip.is_private() || ip.is_link_local() || (ip.octets()[0] == 100 && ip.octets()[1] & 0xc0 == 64)
            }
            IpAddr::V6(ip) => ip.is_unique_local() || ip.is_unicast_link_local(),
        };
        if ip.is_loopback() {
            Self::Machine
        } else if is_site {
            Self::Site
        } else {
            Self::World
        }
    }

    fn words(self) -> &'static str {
        match self {
            Self::Machine => "an address of one machine",
            Self::Site => "a private address",
            Self::World => "a public address",
        }
    }
}

/// Why a password is not sent to this address because a node names it: 127.0.0.2 is another machine there than here, and who
/// tunes a private cluster does not want to speak to the world.
fn refused(ip: IpAddr, own: IpAddr) -> String {
    let (there, here) = (Reach::of(ip), Reach::of(own.to_canonical()));
    if there == here { String::new() } else { format!("it has {}, and the url {}", there.words(), here.words()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(columns: &[&str]) -> Vec<Option<String>> {
        columns.iter().map(|text| (*text != "null").then(|| (*text).to_owned())).collect()
    }

    fn home(ip: &str) -> Home {
        Home { address: Address::tcp("seed", 9042), port: 9042, ip: ip.parse().ok() }
    }

    fn ring(peers: &[&[&str]], ip: &str) -> Ring {
        let said = Said {
            local: vec![row(&["dc1", "r", "org.apache.cassandra.dht.Murmur3Partitioner", "[0, 100]"])],
            peers: peers.iter().map(|peer| row(peer)).collect(),
            keyspaces: vec![
                row(&["two", "{class: SimpleStrategy, replication_factor: 2}"]),
                row(&["also", "{class: SimpleStrategy, replication_factor: 2}"]),
                row(&["system", "{class: LocalStrategy}"]),
            ],
        };
        Ring::of(&said, &home(ip))
    }

    fn names(ring: &Ring) -> Vec<String> {
        ring.nodes.iter().map(|node| node.address.to_string()).collect()
    }

    #[test]
    fn a_row_is_at_the_node_of_the_next_token_and_at_those_behind_it() {
        let ring =
            ring(&[&["dc1", "r", "[-50]", "10.0.0.2", "9042"], &["dc1", "r", "[50]", "10.0.0.3", "9043"]], "10.0.0.1");
        assert_eq!(names(&ring), ["seed:9042", "10.0.0.2:9042", "10.0.0.3:9043"]);
        let replicas = ring.replicas("two").expect("known");
        for (token, nodes) in [
            (-51, [1, 0]),
            (-50, [1, 0]),
            (-49, [0, 2]),
            (0, [0, 2]),
            (1, [2, 0]),
            (51, [0, 1]),
            (100, [0, 1]),
            (101, [1, 0]),
            (i64::MAX, [1, 0]),
        ] {
            assert_eq!(replicas.find(token), nodes, "{token}");
        }
        assert!(Arc::ptr_eq(replicas, ring.replicas("also").expect("known")));
        assert!(ring.replicas("system").is_none() && ring.replicas("").is_none());
    }

    #[test]
    fn nodes_that_cannot_be_spoken_to_are_left_out_with_the_reason() {
        let ring = ring(
            &[
                &["dc1", "r", "[-50]", "0.0.0.0", "9042"],
                &["dc1", "r", "[50]", "null", "null"],
                &["dc2", "r", "[60]", "10.0.0.4", "9042"],
                &["dc1", "r", "[70]", "127.0.0.2", "9042"],
                &["dc1", "r", "[80]", "8.8.8.8", "9042"],
                &["dc1", "r", "[90]", "192.168.0.5"],
            ],
            "10.0.0.1",
        );
        assert_eq!(names(&ring), ["seed:9042", "192.168.0.5:9042"]);
        let why: Vec<_> = ring.left_out.iter().map(|(name, why)| format!("{name}: {why}")).collect();
        assert_eq!(
            why,
            [
                "0.0.0.0:9042: its address for clients is 0.0.0.0",
                "a node: it tells no address for clients",
                "10.0.0.4:9042: it is in data center dc2",
                "127.0.0.2:9042: it has an address of one machine, and the url a private address",
                "8.8.8.8:9042: it has a public address, and the url a private address",
            ]
        );
        // The rows of -50 are at the node that is left out and at the node of 0.
        assert_eq!(ring.replicas("two").expect("known").find(-50), [0]);
        assert_eq!(ring.replicas("two").expect("known").find(75), [1]);
        assert!(ring.replicas("two").expect("known").find(40).is_empty());
    }

    #[test]
    fn a_node_alone_has_no_choice() {
        assert!(!ring(&[], "10.0.0.1").has_choice());
        assert!(!Ring::of(&Said::default(), &home("10.0.0.1")).has_choice());
        let other = Said {
            local: vec![row(&["dc1", "r", "org.apache.cassandra.dht.RandomPartitioner", "[0]"])],
            peers: vec![row(&["dc1", "r", "[5]", "10.0.0.2", "9042"])],
            keyspaces: Vec::new(),
        };
        assert!(!Ring::of(&other, &home("10.0.0.1")).has_choice());
    }

    #[test]
    fn a_node_rests_after_a_refusal() {
        let ring = ring(&[&["dc1", "r", "[-50]", "10.0.0.2", "9042"]], "10.0.0.1");
        assert!(!ring.rests(1));
        ring.note_refusal(1);
        assert!(ring.rests(1) && !ring.rests(0));
    }
}
