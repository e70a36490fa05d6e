//! How a connection is opened: greeting, encryption where it is wanted, and proof of the password.

use std::io;

use ring::digest::{Context, SHA1_FOR_LEGACY_USE_ONLY, SHA256};

use super::door::Door;
use super::ed25519;
use super::failure;
use super::fields::{Fields, put_text};
use super::reply::Form;
use super::rsa::PublicKey;
use super::wire::Wire;
use crate::driver::access::Access;
use crate::driver::channel::Channel;
use crate::driver::{ErrorClass, Failure};

/// What client and server agree on, by the protocol's names for the bits.
pub(super) mod capability {
    pub(crate) const LONG_PASSWORD: u32 = 1;
    /// An UPDATE counts the rows that it found, also those that had the value already.
    pub(crate) const FOUND_ROWS: u32 = 1 << 1;
    pub(crate) const LONG_FLAG: u32 = 1 << 2;
    pub(crate) const CONNECT_WITH_DB: u32 = 1 << 3;
    pub(crate) const PROTOCOL_41: u32 = 1 << 9;
    pub(crate) const SSL: u32 = 1 << 11;
    pub(crate) const TRANSACTIONS: u32 = 1 << 13;
    pub(crate) const SECURE_CONNECTION: u32 = 1 << 15;
    pub(crate) const MULTI_STATEMENTS: u32 = 1 << 16;
    pub(crate) const MULTI_RESULTS: u32 = 1 << 17;
    pub(crate) const PS_MULTI_RESULTS: u32 = 1 << 18;
    pub(crate) const PLUGIN_AUTH: u32 = 1 << 19;
    pub(crate) const PLUGIN_AUTH_LENGTH: u32 = 1 << 21;
    /// Rows end with an OK packet, and descriptions of columns with nothing.
    pub(crate) const DEPRECATE_EOF: u32 = 1 << 24;

    /// MariaDB's own, which stand in a field of their own: a prepared statement's columns are described again only when they
    /// have changed. Before a server that has them, a client leaves `LONG_PASSWORD` out, as the server does.
    pub(super) const CACHE_METADATA: u32 = 1 << 4;

    pub(super) const REQUIRED: u32 = PROTOCOL_41 | SECURE_CONNECTION | PLUGIN_AUTH;
    pub(super) const WANTED: u32 = REQUIRED
        | LONG_PASSWORD
        | FOUND_ROWS
        | LONG_FLAG
        | TRANSACTIONS
        | MULTI_STATEMENTS
        | MULTI_RESULTS
        | PS_MULTI_RESULTS
        | PLUGIN_AUTH_LENGTH
        | DEPRECATE_EOF;
}

const NATIVE: &str = "mysql_native_password";
const CACHING_SHA2: &str = "caching_sha2_password";
const CLEAR: &str = "mysql_clear_password";
const SHA256_PASSWORD: &str = "sha256_password";
const ED25519: &str = "client_ed25519";

/// Asks for the server's public key; each way of authentication has a byte of its own for that.
const KEY_WANTED: u8 = 2;
const SHA256_KEY_WANTED: u8 = 1;

/// utf8mb4_general_ci, which MySQL and MariaDB number alike.
const CHARACTER_SET: u8 = 45;

/// The largest packet that is announced: the protocol's 1 GB.
const PACKET_BYTES_MAX: u32 = 1 << 30;

/// A connection that the server has let in.
pub(super) struct Entered {
    pub(super) wire: Wire<Channel>,
    /// The server's number of the connection, which KILL takes.
    pub(super) thread: u32,
    pub(super) agreed: Agreed,
}

/// What client and server have agreed on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Agreed {
    capabilities: u32,
    /// MariaDB's own.
    extended: u32,
}

impl Agreed {
    /// All that both can do.
    fn with(greeting: &Greeting) -> Self {
        let capabilities = capability::WANTED & greeting.capabilities;
        // Where descriptions of columns end with a packet of their own, nothing says whether it comes without them.
        let is_known = capabilities & capability::DEPRECATE_EOF != 0;
        Self { capabilities, extended: if is_known { capability::CACHE_METADATA & greeting.extended } else { 0 } }
    }

    fn has(self, capability: u32) -> bool {
        self.capabilities & capability != 0
    }

    /// How the server writes its answers.
    pub(super) fn form(self, is_binary: bool) -> Form {
        let tells_metadata = self.extended & capability::CACHE_METADATA != 0;
        Form { is_binary, has_eof: !self.has(capability::DEPRECATE_EOF), tells_metadata }
    }
}

/// Opens a connection to the server behind `door`.
pub(super) async fn enter(door: &Door, access: &Access) -> Result<Entered, Failure> {
    let context = format!("cannot connect to {}", door.address);
    let socket = door.address.open().await.map_err(|error| Failure::lost(&context, &error))?;
    let mut wire = Wire::new(Channel::Plain(socket));
    let greeting = wire.greeting().await.map_err(|error| match error.kind() {
        io::ErrorKind::InvalidData => stranger(&context),
        _ => Failure::lost(&context, &error),
    })?;
    let greeting = Greeting::read(greeting, &context)?;
    let mut agreed = Agreed::with(&greeting);
    if !access.database.is_empty() {
        agreed.capabilities |= capability::CONNECT_WITH_DB;
    }
    let is_encrypted = wants_tls(door, &greeting, &context)?;
    if is_encrypted {
        agreed.capabilities |= capability::SSL;
        wire = encrypt(wire, door, agreed).await.map_err(|error| Failure::lost(&context, &error))?;
    }
    let password = access.password.as_deref().unwrap_or_default();
    let proof = Proof { password, is_encrypted, is_secret: is_encrypted || door.is_local() };
    let first = if matches!(&*greeting.plugin, NATIVE | CACHING_SHA2) { &*greeting.plugin } else { NATIVE };
    let answer = proof.first_answer(first, &greeting.challenge)?;
    put_response(wire.answer(), agreed, access, first, &answer);
    wire.send().await.map_err(|error| Failure::lost(&context, &error))?;
    prove(&mut wire, proof, first, greeting.challenge, &context).await?;
    Ok(Entered { wire, thread: greeting.thread, agreed })
}

/// What the server says first.
#[derive(Debug, PartialEq, Eq)]
struct Greeting {
    thread: u32,
    capabilities: u32,
    /// MariaDB's own.
    extended: u32,
    challenge: Vec<u8>,
    plugin: String,
}

impl Greeting {
    fn read(payload: &[u8], context: &str) -> Result<Self, Failure> {
        match payload.first() {
            Some(0xff) => {
                let failure = failure::read_error(payload);
                Err(Failure { message: format!("{context}: {}", failure.message), ..failure })
            }
            Some(10) => Self::parse(&payload[1..])
                .ok_or_else(|| Failure::protocol(format!("{context}: a greeting that is cut short"))),
            _ => Err(stranger(context)),
        }
        .and_then(|greeting: Self| {
            let is_known = greeting.capabilities & capability::REQUIRED == capability::REQUIRED;
            let too_old = || Failure::protocol(format!("{context}: the server is older than MySQL 5.5"));
            is_known.then_some(greeting).ok_or_else(too_old)
        })
    }

    fn parse(payload: &[u8]) -> Option<Self> {
        let mut fields = Fields(payload);
        let _version = fields.terminated();
        let thread = fields.u32()?;
        let mut challenge = fields.bytes(8)?.to_vec();
        fields.u8()?;
        let low = fields.u16()?;
        let (_character_set, _status) = (fields.u8()?, fields.u16()?);
        let high = fields.u16()?;
        let length = fields.u8()?;
        fields.bytes(6)?;
        let extended = fields.u32()?;
        let is_mysql = low & capability::LONG_PASSWORD as u16 != 0;
        // The second part ends with a NUL that does not belong to it.
        let rest = fields.bytes(usize::from(length).saturating_sub(8).max(13))?;
        challenge.extend(&rest[..rest.len() - 1]);
        let plugin = String::from_utf8_lossy(fields.terminated()).into_owned();
        let capabilities = u32::from(low) | u32::from(high) << 16;
        Some(Self { thread, capabilities, extended: if is_mysql { 0 } else { extended }, challenge, plugin })
    }
}

fn stranger(context: &str) -> Failure {
    Failure::protocol(format!("{context}: what answers there does not speak MySQL's protocol"))
}

fn wants_tls(door: &Door, greeting: &Greeting, context: &str) -> Result<bool, Failure> {
    let Some(tls) = door.tls.as_ref().filter(|_| !door.is_local()) else { return Ok(false) };
    let is_offered = greeting.capabilities & capability::SSL != 0;
    if tls.is_required && !is_offered {
        let message = format!("{context}: the server does not offer TLS, which is required");
        return Err(Failure::without_code(ErrorClass::Connect, message));
    }
    Ok(is_offered)
}

async fn encrypt(mut wire: Wire<Channel>, door: &Door, agreed: Agreed) -> io::Result<Wire<Channel>> {
    put_head(wire.answer(), agreed);
    wire.send().await?;
    let empty = Wire::continued((), &wire);
    match (wire.into_stream(), &door.tls) {
        (Channel::Plain(socket), Some(tls)) => {
            let stream = tls.wrap(door.host(), socket).await?;
            Ok(Wire::continued(Channel::Tls(Box::new(stream)), &empty))
        }
        (stream, _) => Ok(Wire::continued(stream, &empty)),
    }
}

fn put_head(out: &mut Vec<u8>, agreed: Agreed) {
    out.extend(agreed.capabilities.to_le_bytes());
    out.extend(PACKET_BYTES_MAX.to_le_bytes());
    out.push(CHARACTER_SET);
    out.extend([0; 19]);
    out.extend(agreed.extended.to_le_bytes());
}

fn put_response(out: &mut Vec<u8>, agreed: Agreed, access: &Access, plugin: &str, answer: &[u8]) {
    put_head(out, agreed);
    out.extend(access.user.as_bytes());
    out.push(0);
    // Both ways of writing the length agree for the answers that there are.
    put_text(answer, out);
    if agreed.has(capability::CONNECT_WITH_DB) {
        out.extend(access.database.as_bytes());
        out.push(0);
    }
    out.extend(plugin.as_bytes());
    out.push(0);
}

/// Answers what the server asks until it lets the user in or refuses.
async fn prove(
    wire: &mut Wire<Channel>,
    proof: Proof<'_>,
    first: &str,
    challenge: Vec<u8>,
    context: &str,
) -> Result<(), Failure> {
    let (mut plugin, mut challenge) = (first.to_owned(), challenge);
    loop {
        let payload = wire.next().await.map_err(|error| Failure::lost(context, &error))?;
        let answer = match payload.split_first() {
            Some((0x00, _)) => return Ok(()),
            Some((0xff, _)) => return Err(failure::read_error(payload)),
            Some((0xfe, rest)) => {
                let mut fields = Fields(rest);
                plugin = String::from_utf8_lossy(fields.terminated()).into_owned();
                challenge = fields.0.to_vec();
                proof.first_answer(&plugin, &challenge)?
            }
            // The password's hash was in the server's cache, and was right.
            Some((0x01, [3])) if plugin == CACHING_SHA2 => continue,
            Some((0x01, [4])) if plugin == CACHING_SHA2 && proof.is_secret => proof.clear(CACHING_SHA2)?,
            // Without encryption the password goes under the server's public key, which is asked for first.
            Some((0x01, [4])) if plugin == CACHING_SHA2 => vec![KEY_WANTED],
            Some((0x01, key)) if matches!(&*plugin, CACHING_SHA2 | SHA256_PASSWORD) => proof.hidden(key, &challenge)?,
            _ => return Err(Failure::protocol(format!("{context}: {plugin} asks for what is not known"))),
        };
        wire.answer().extend(answer);
        wire.send().await.map_err(|error| Failure::lost(context, &error))?;
    }
}

/// The password, and how it may be sent.
#[derive(Clone, Copy)]
struct Proof<'a> {
    password: &'a str,
    /// Also over a Unix socket, `sha256_password` wants the server's public key where this is not so.
    is_encrypted: bool,
    /// Whether nobody else can read what is sent.
    is_secret: bool,
}

impl Proof<'_> {
    fn first_answer(self, plugin: &str, challenge: &[u8]) -> Result<Vec<u8>, Failure> {
        match plugin {
            NATIVE | CACHING_SHA2 if self.password.is_empty() => Ok(Vec::new()),
            NATIVE => Ok(native_answer(self.password, scramble(challenge))),
            CACHING_SHA2 => Ok(sha2_answer(self.password, scramble(challenge))),
            CLEAR => self.clear(CLEAR),
            SHA256_PASSWORD if self.is_encrypted || self.password.is_empty() => {
                Ok([self.password.as_bytes(), b"\0"].concat())
            }
            SHA256_PASSWORD => Ok(vec![SHA256_KEY_WANTED]),
            ED25519 => {
                let challenge = challenge.get(..ed25519::CHALLENGE_BYTES);
                let challenge = challenge.ok_or_else(|| Failure::protocol("a challenge that is cut short"))?;
                Ok(ed25519::sign(self.password, challenge))
            }
            // The server asks the operating system who is at the other end.
            "auth_socket" | "unix_socket" => Ok(Vec::new()),
            _ => {
                let message = format!(
                    "the user is authenticated by {plugin}, which is not supported; supported are {NATIVE}, \
                     {CACHING_SHA2}, {SHA256_PASSWORD}, {ED25519}, {CLEAR} and unix_socket"
                );
                Err(Failure::without_code(ErrorClass::Permission, message))
            }
        }
    }

    /// The password under the server's public key, mixed with the challenge so that it cannot be sent again.
    fn hidden(self, key: &[u8], challenge: &[u8]) -> Result<Vec<u8>, Failure> {
        let wrong = || Failure::protocol("the server's public key cannot be used");
        let key = PublicKey::read(key).ok_or_else(wrong)?;
        let scramble = scramble(challenge);
        if scramble.is_empty() {
            return Err(Failure::protocol("a challenge that is cut short"));
        }
        let mixed: Vec<u8> =
            self.password.bytes().chain([0]).zip(scramble.iter().cycle()).map(|(byte, mask)| byte ^ mask).collect();
        key.encrypt(&mixed).ok_or_else(wrong)
    }

    fn clear(self, plugin: &str) -> Result<Vec<u8>, Failure> {
        if self.is_secret {
            return Ok([self.password.as_bytes(), b"\0"].concat());
        }
        let message = format!("{plugin} needs the password itself, which is sent over a Unix socket or TLS only");
        Err(Failure::without_code(ErrorClass::Permission, message))
    }
}

/// A challenge as most ways of authentication have it: 20 bytes, and sometimes a NUL that does not belong to it.
fn scramble(challenge: &[u8]) -> &[u8] {
    &challenge[..challenge.len().min(20)]
}

/// SHA1(password) xor SHA1(challenge, SHA1(SHA1(password))).
fn native_answer(password: &str, challenge: &[u8]) -> Vec<u8> {
    let hash = |parts: &[&[u8]]| digest(&SHA1_FOR_LEGACY_USE_ONLY, parts);
    let once = hash(&[password.as_bytes()]);
    xor(&once, &hash(&[challenge, &hash(&[&once])]))
}

/// SHA256(password) xor SHA256(SHA256(SHA256(password)), challenge).
fn sha2_answer(password: &str, challenge: &[u8]) -> Vec<u8> {
    let hash = |parts: &[&[u8]]| digest(&SHA256, parts);
    let once = hash(&[password.as_bytes()]);
    xor(&once, &hash(&[&hash(&[&once]), challenge]))
}

fn digest(algorithm: &'static ring::digest::Algorithm, parts: &[&[u8]]) -> Vec<u8> {
    let mut context = Context::new(algorithm);
    parts.iter().for_each(|part| context.update(part));
    context.finish().as_ref().to_vec()
}

fn xor(a: &[u8], b: &[u8]) -> Vec<u8> {
    a.iter().zip(b).map(|(a, b)| a ^ b).collect()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpListener;
    use tokio::time::timeout;

    use super::*;
    use crate::driver::socket::Address;

    #[tokio::test]
    async fn a_server_of_another_protocol_is_told_at_once() {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let port = listener.local_addr().expect("an address").port();
        let door = Door { address: Address::tcp("127.0.0.1", port), tls: None };
        let access = Access::default();
        let serving = async {
            let (mut stream, _) = listener.accept().await.expect("a client");
            stream.write_all(b"SSH-2.0-OpenSSH_9.6\r\n").await.expect("room");
            // It waits for the client's words, as such servers do.
            stream.read_u8().await
        };
        let (entered, _) = tokio::join!(timeout(Duration::from_secs(2), enter(&door, &access)), serving);
        let failure = entered.expect("no wait").err().expect("refused");
        let expected =
            format!("cannot connect to 127.0.0.1:{port}: what answers there does not speak MySQL's protocol");
        assert_eq!((failure.class, failure.message), (ErrorClass::Protocol, expected));
    }

    fn hex(bytes: &[u8]) -> String {
        bytes.iter().map(|byte| format!("{byte:02x}")).collect()
    }

    #[test]
    fn answers_are_those_of_the_definitions() {
        // By the formulas with Python's hashlib.
        assert_eq!(hex(&native_answer("secret", b"0123456789abcdefghij")), "f5cac3f3b3df2133feb57db682c71e6ed433a988");
        assert_eq!(
            hex(&sha2_answer("secret", b"0123456789abcdefghij")),
            "7e4adda2f2d5ef09b4147518becb0cee2939376203650a8c2bb2815959364bd0"
        );
    }

    #[test]
    fn a_password_is_not_sent_where_others_can_read_it() {
        let proof = Proof { password: "secret", is_encrypted: false, is_secret: false };
        let text = proof.first_answer(CLEAR, b"").expect_err("refused").message;
        assert!(text.contains("over a Unix socket or TLS only") && !text.contains("secret"), "{text}");
        let proof = Proof { is_secret: true, ..proof };
        assert_eq!(proof.first_answer(CLEAR, b""), Ok(b"secret\0".to_vec()));
        let sha256 = |is_encrypted| Proof { is_encrypted, ..proof }.first_answer(SHA256_PASSWORD, b"");
        assert_eq!([sha256(false), sha256(true)], [Ok(vec![SHA256_KEY_WANTED]), Ok(b"secret\0".to_vec())]);
        let text = proof.first_answer("parsec", b"").expect_err("refused").message;
        assert!(text.starts_with("the user is authenticated by parsec, which is not supported"), "{text}");
        assert_eq!(proof.first_answer(ED25519, &[1; 32]).map(|signature| signature.len()), Ok(64));
        assert_eq!(proof.first_answer(ED25519, &[1; 20]).expect_err("short").class, ErrorClass::Protocol);
    }

    #[test]
    fn greetings_are_read_or_refused() {
        let mut payload = b"\x0a8.0.36\0\x07\0\0\0abcdefgh\0".to_vec();
        payload.extend([0xff, 0xff, 45, 2, 0, 0xff, 0x01, 21]);
        payload.extend([0; 10]);
        payload.extend(b"ijklmnopqrst\0caching_sha2_password\0");
        let greeting = Greeting::read(&payload, "x").expect("sound");
        assert_eq!((greeting.thread, &*greeting.challenge), (7, &b"abcdefghijklmnopqrst"[..]));
        assert_eq!((greeting.capabilities, &*greeting.plugin), (0x01ff_ffff, CACHING_SHA2));
        assert_eq!(Agreed::with(&greeting).extended, 0);
        for n in 1..payload.len() - 22 {
            let failure = Greeting::read(&payload[..n], "x").expect_err("cut short");
            assert_eq!(failure.class, ErrorClass::Protocol, "{n}");
        }
        // MariaDB leaves the first bit out and writes its own capabilities behind six empty bytes.
        let at = payload.iter().position(|&byte| byte == 21).expect("the challenge's length") + 7;
        payload[at..at + 4].copy_from_slice(&0x1d_u32.to_le_bytes());
        assert_eq!(Agreed::with(&Greeting::read(&payload, "x").expect("sound")).extended, 0);
        payload[at - 14] = 0xfe;
        let agreed = Agreed::with(&Greeting::read(&payload, "x").expect("sound"));
        assert_eq!((agreed.extended, agreed.has(capability::LONG_PASSWORD)), (capability::CACHE_METADATA, false));
        assert!(agreed.form(true).tells_metadata);
        let mut head = Vec::new();
        put_head(&mut head, agreed);
        assert_eq!((head.len(), &head[24..]), (32, &[0, 0, 0, 0, 0x10, 0, 0, 0][..]));
        // A server whose rows end as before MySQL 5.7.
        payload[at - 8] &= 0xfe;
        assert_eq!(Agreed::with(&Greeting::read(&payload, "x").expect("sound")).extended, 0);
        let text = Greeting::read(b"HTTP/1.1", "cannot connect to x").expect_err("another protocol").message;
        assert_eq!(text, "cannot connect to x: what answers there does not speak MySQL's protocol");
        let failure = Greeting::read(b"\xff\x10\x04Too many connections", "cannot connect to x").expect_err("full");
        assert_eq!(failure.to_string(), "1040 cannot connect to x: Too many connections");
    }
}
