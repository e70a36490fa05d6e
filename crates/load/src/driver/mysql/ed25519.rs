//! MariaDB's ed25519: a signature with a key that is made of the password, of whatever length.

use curve25519_dalek::edwards::EdwardsPoint;
use curve25519_dalek::scalar::{Scalar, clamp_integer};
use sha2::{Digest, Sha512};

/// What the server sends to be signed.
pub(super) const CHALLENGE_BYTES: usize = 32;

/// The signature of `challenge` (RFC 8032, section 5.1.6, with the password in place of the private key).
pub(super) fn sign(password: &str, challenge: &[u8]) -> Vec<u8> {
    let (secret, prefix) = halves(password);
    let public = EdwardsPoint::mul_base(&secret).compress();
    let once = hashed(&[&prefix, challenge]);
    let point = EdwardsPoint::mul_base(&once).compress();
    let proof = once + hashed(&[point.as_bytes(), public.as_bytes(), challenge]) * secret;
    [point.to_bytes(), proof.to_bytes()].concat()
}

fn halves(password: &str) -> (Scalar, [u8; 32]) {
    let hash: [u8; 64] = Sha512::digest(password.as_bytes()).into();
    let (mut secret, mut prefix) = ([0; 32], [0; 32]);
    secret.copy_from_slice(&hash[..32]);
    prefix.copy_from_slice(&hash[32..]);
    (Scalar::from_bytes_mod_order(clamp_integer(secret)), prefix)
}

fn hashed(parts: &[&[u8]]) -> Scalar {
    let mut hash = Sha512::new();
    parts.iter().for_each(|part| hash.update(part));
    Scalar::from_bytes_mod_order_wide(&hash.finalize().into())
}

#[cfg(test)]
mod tests {
    use ring::signature::{ED25519, UnparsedPublicKey};

    use super::*;

    #[test]
    fn signatures_are_those_of_the_keys_that_mariadb_keeps() {
        // ed25519_password('secret') is ZIgUREUg5PVgQ6LskhXmO+eZLS0nC8be6HPjYWR4YJY in MariaDB's manual.
        let kept = "648814444520e4f56043a2ec9215e63b e7992d2d270bc6dee873e36164786096";
        let public = EdwardsPoint::mul_base(&halves("secret").0).compress();
        let hex: String = public.as_bytes().iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(hex, kept.replace(' ', ""));
        let challenge = [7; CHALLENGE_BYTES];
        let signature = sign("secret", &challenge);
        let known = UnparsedPublicKey::new(&ED25519, public.as_bytes());
        known.verify(&challenge, &signature).expect("a sound signature");
        assert!(known.verify(&[8; CHALLENGE_BYTES], &signature).is_err());
    }
}
