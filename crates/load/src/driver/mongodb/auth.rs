//! SCRAM-SHA-256 (RFC 5802, RFC 7677) as MongoDB speaks it: in the commands saslStart and saslContinue.

use std::num::NonZeroU32;

use ring::rand::{SecureRandom, SystemRandom};
use ring::{digest, hmac, pbkdf2};
use stringprep::saslprep;

use super::bson::{Document, Value};
use super::wire::{Wire, judged};
use crate::driver::{ErrorClass, Failure};

/// MongoDB refuses fewer by default; a server that asks for hardly any would have us try passwords cheaply.
const LEAST_ROUNDS: u32 = 4_096;
const MOST_ROUNDS: u32 = 1_000_000;

/// Proves who we are to the users of `database`.
pub(super) async fn enter(wire: &mut Wire, user: &str, password: &str, database: &str) -> Result<(), Failure> {
    let mut nonce = [0; 24];
    SystemRandom::new().fill(&mut nonce).map_err(|_| refused("the system gives no random numbers"))?;
    // Of the password only: MongoDB takes user names as they are (its specification of authentication, "SCRAM-SHA-256").
    let password = saslprep(password)
        .map_err(|_| refused("the password has a character that SCRAM-SHA-256 does not allow (RFC 4013)"))?;
    let scram = Scram::new(user, &password, &encode(&nonce));
    let first = format!("n,,{}", scram.first);
    let answer = wire
        .ask(database, |out| {
            out.int("saslStart", 1);
            out.text("mechanism", "SCRAM-SHA-256");
            out.binary("payload", first.as_bytes());
            out.document("options");
            out.flag("skipEmptyExchange", true);
            out.close();
        })
        .await?;
    let answer = judged(answer).map_err(denied)?;
    let id = answer.get("conversationId").and_then(Value::number).unwrap_or(1.0) as i32;
    let (last, signature) = scram.last(payload(answer.get("payload"))?)?;
    let answer = go_on(wire, id, last.as_bytes(), database).await?;
    let said = payload(answer.get("payload"))?;
    if said.strip_prefix("v=") != Some(signature.as_str()) {
        return Err(refused("the server does not know the password either"));
    }
    if answer.get("done").and_then(Value::number) != Some(1.0) {
        go_on(wire, id, b"", database).await?;
    }
    Ok(())
}

async fn go_on<'a>(wire: &'a mut Wire, id: i32, payload: &[u8], database: &str) -> Result<Document<'a>, Failure> {
    let answer = wire
        .ask(database, |out| {
            out.int("saslContinue", 1);
            out.int("conversationId", id);
            out.binary("payload", payload);
        })
        .await?;
    judged(answer).map_err(denied)
}

fn payload(value: Option<Value<'_>>) -> Result<&str, Failure> {
    let text = match value {
        Some(Value::Bytes(bytes)) => std::str::from_utf8(bytes).ok(),
        Some(Value::Text(text)) => Some(text),
        _ => None,
    };
    text.ok_or_else(|| refused("an answer without a payload"))
}

fn refused(message: &str) -> Failure {
    Failure::without_code(ErrorClass::Permission, format!("cannot log in: {message}"))
}

fn denied(failure: Failure) -> Failure {
    Failure { message: format!("cannot log in: {}", failure.message), ..failure }
}

/// One conversation.
struct Scram {
    /// The first message, without its header.
    first: String,
    nonce: String,
    password: String,
}

impl Scram {
    fn new(user: &str, password: &str, nonce: &str) -> Self {
        let user = user.replace('=', "=3D").replace(',', "=2C");
        Self { first: format!("n={user},r={nonce}"), nonce: nonce.to_owned(), password: password.to_owned() }
    }

    /// The last message, and how the server must sign.
    fn last(&self, said: &str) -> Result<(String, String), Failure> {
        let part = |name: &str| said.split(',').find_map(|part| part.strip_prefix(name));
        let (Some(nonce), Some(salt), Some(rounds)) = (part("r="), part("s=").and_then(decode), part("i=")) else {
            return Err(refused("a challenge that is none"));
        };
        let rounds: u32 = rounds.parse().unwrap_or(0);
        if !nonce.starts_with(&self.nonce) || !(LEAST_ROUNDS..=MOST_ROUNDS).contains(&rounds) {
            return Err(refused("a challenge that is not to be trusted"));
        }
        let mut salted = [0; digest::SHA256_OUTPUT_LEN];
        let rounds = NonZeroU32::new(rounds).unwrap_or(NonZeroU32::MIN);
        pbkdf2::derive(pbkdf2::PBKDF2_HMAC_SHA256, rounds, &salt, self.password.as_bytes(), &mut salted);
        let sign = |key: &[u8], text: &[u8]| hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, key), text);
        let client = sign(&salted, b"Client Key");
        let stored = digest::digest(&digest::SHA256, client.as_ref());
        let without_proof = format!("c=biws,r={nonce}");
        let text = format!("{},{said},{without_proof}", self.first);
        let signature = sign(stored.as_ref(), text.as_bytes());
        let proof: Vec<u8> = client.as_ref().iter().zip(signature.as_ref()).map(|(a, b)| a ^ b).collect();
        let server = sign(sign(&salted, b"Server Key").as_ref(), text.as_bytes());
        Ok((format!("{without_proof},p={}", encode(&proof)), encode(server.as_ref())))
    }
}

const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/// Base64 (RFC 4648).
pub(super) fn encode(bytes: &[u8]) -> String {
    let mut text = String::new();
    for chunk in bytes.chunks(3) {
        let word = chunk.iter().enumerate().fold(0_u32, |word, (i, byte)| word | u32::from(*byte) << (16 - 8 * i));
        for i in 0..4 {
            let digit = ALPHABET[(word >> (18 - 6 * i)) as usize & 63];
            text.push(if i > chunk.len() { '=' } else { char::from(digit) });
        }
    }
    text
}

/// `None`: it is no Base64.
pub(super) fn decode(text: &str) -> Option<Vec<u8>> {
    let (mut bytes, mut word, mut n_bits) = (Vec::new(), 0_u32, 0);
    for digit in text.trim_end_matches('=').bytes() {
        let value = ALPHABET.iter().position(|known| *known == digit)?;
        word = word << 6 | value as u32;
        n_bits += 6;
        if n_bits >= 8 {
            n_bits -= 8;
            bytes.push((word >> n_bits) as u8);
            word &= (1 << n_bits) - 1;
        }
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_conversation_is_that_of_rfc_7677() {
        let scram = Scram::new("user", "pencil", "rOprNGfwEbeRWgbNEkqO");
        assert_eq!(scram.first, "n=user,r=rOprNGfwEbeRWgbNEkqO");
        let said = "r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096";
        let (last, signature) = scram.last(said).expect("a challenge");
        assert_eq!(
            last,
            "c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="
        );
        assert_eq!(signature, "6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=");
    }

    #[test]
    fn a_challenge_that_is_not_to_be_trusted_is_refused() {
        let scram = Scram::new("a,b=c", "pencil", "abc");
        assert_eq!(scram.first, "n=a=2Cb=3Dc,r=abc");
        for said in ["", "r=abcd,s=AAAA", "r=other,s=AAAA,i=4096", "r=abcd,s=AAAA,i=1", "r=abcd,s=A*,i=4096"] {
            assert!(scram.last(said).is_err(), "{said}");
        }
    }

    #[test]
    fn base64_goes_there_and_back() {
        for text in ["", "f", "fo", "foo", "foob", "fooba", "foobar"] {
            assert_eq!(decode(&encode(text.as_bytes())).expect("base64"), text.as_bytes());
        }
        assert_eq!(encode(b"foob"), "Zm9vYg==");
    }
}
