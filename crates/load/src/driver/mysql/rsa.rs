//! Hiding a password from who listens: RSA with OAEP (RFC 8017, section 7.1.1, with SHA-1), for the server's public key.
//!
//! Only what encrypting takes: no private key is ever here.

use ring::digest::{SHA1_FOR_LEGACY_USE_ONLY, digest};
use ring::rand::{SecureRandom, SystemRandom};
use rustls::pki_types::SubjectPublicKeyInfoDer;
use rustls::pki_types::pem::PemObject;

use crate::driver::tls::element;

/// Servers make keys of 2048 bits.
const KEY_BYTES: std::ops::RangeInclusive<usize> = 128..=1024;
const HASH_BYTES: usize = 20;

/// A public key.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct PublicKey {
    /// The modulus, least significant first.
    modulus: Vec<u32>,
    exponent: u32,
}

impl PublicKey {
    /// `None` for what is no key in PEM, or one of an unlikely size.
    pub(super) fn read(pem: &[u8]) -> Option<Self> {
        let der = SubjectPublicKeyInfoDer::from_pem_slice(pem).ok()?;
        // The algorithm, and then a string of bits (none of them unused) that holds modulus and exponent.
        let (fields, _) = element(der.as_ref())?;
        let (_, rest) = element(fields)?;
        let (bits, _) = element(rest)?;
        let (numbers, _) = element(bits.strip_prefix(b"\0")?)?;
        let (modulus, rest) = element(numbers)?;
        let (exponent, _) = element(rest)?;
        let modulus = modulus.strip_prefix(b"\0").unwrap_or(modulus);
        let is_likely = KEY_BYTES.contains(&modulus.len())
            && modulus.len() % 4 == 0
            && modulus.first()? >= &0x80
            && modulus.last()? % 2 == 1;
        let exponent =
            exponent.iter().try_fold(0_u32, |sum, byte| sum.checked_mul(256)?.checked_add((*byte).into()))?;
        (is_likely && exponent % 2 == 1 && exponent > 1).then(|| Self { modulus: limbs(modulus), exponent })
    }

    fn n_bytes(&self) -> usize {
        self.modulus.len() * 4
    }

    /// `None` when the secret is too long for the key, or the system has no random numbers.
    pub(super) fn encrypt(&self, secret: &[u8]) -> Option<Vec<u8>> {
        let mut seed = [0; HASH_BYTES];
        SystemRandom::new().fill(&mut seed).ok()?;
        self.encrypt_with(secret, seed)
    }

    fn encrypt_with(&self, secret: &[u8], seed: [u8; HASH_BYTES]) -> Option<Vec<u8>> {
        let n_padding = self.n_bytes().checked_sub(secret.len() + 2 * HASH_BYTES + 2)?;
        let mut block = sha1(b"");
        block.resize(HASH_BYTES + n_padding, 0);
        block.push(1);
        block.extend(secret);
        mask(&mut block, &seed);
        let mut seed = seed.to_vec();
        mask(&mut seed, &block);
        let message = limbs(&[&[0], &seed[..], &block].concat());
        let mut power = message.clone();
        // From the second bit of the exponent on: square, and multiply where it is set.
        for bit in (0..31 - self.exponent.leading_zeros()).rev() {
            power = self.multiply(&power, &power);
            if self.exponent >> bit & 1 == 1 {
                power = self.multiply(&power, &message);
            }
        }
        Some(power.iter().rev().flat_map(|limb| limb.to_be_bytes()).collect())
    }

    /// a · b modulo the modulus.
    fn multiply(&self, a: &[u32], b: &[u32]) -> Vec<u32> {
        let n = self.modulus.len();
        let mut rest = vec![0_u32; n + 1];
        // Horner's rule over the bits of a, the highest first: double, add, and take away the modulus as often as it fits.
        for bit in (0..32 * n).rev() {
            let mut carry = 0;
            for limb in &mut rest {
                let doubled = u64::from(*limb) << 1 | carry;
                (*limb, carry) = (doubled as u32, doubled >> 32);
            }
            if a[bit / 32] >> (bit % 32) & 1 == 1 {
                let mut carry = 0;
                for (i, limb) in rest.iter_mut().enumerate() {
                    let sum = u64::from(*limb) + u64::from(b.get(i).copied().unwrap_or(0)) + carry;
                    (*limb, carry) = (sum as u32, sum >> 32);
                }
            }
            while self.fits(&rest) {
                let mut borrow = 0;
                for (i, limb) in rest.iter_mut().enumerate() {
                    let taken = u64::from(self.modulus.get(i).copied().unwrap_or(0)) + borrow;
                    borrow = u64::from(u64::from(*limb) < taken);
                    *limb = limb.wrapping_sub(taken as u32);
                }
            }
        }
        rest.truncate(n);
        rest
    }

    fn fits(&self, rest: &[u32]) -> bool {
        let n = self.modulus.len();
        rest[n] > 0 || rest[..n].iter().rev().ge(self.modulus.iter().rev())
    }
}

/// Whole limbs, least significant first, of bytes whose number is a multiple of four or is filled up.
fn limbs(bytes: &[u8]) -> Vec<u32> {
    bytes.rchunks(4).map(|chunk| chunk.iter().fold(0, |limb, byte| limb << 8 | u32::from(*byte))).collect()
}

fn sha1(bytes: &[u8]) -> Vec<u8> {
    digest(&SHA1_FOR_LEGACY_USE_ONLY, bytes).as_ref().to_vec()
}

/// MGF1: the stream of hashes of `seed` with a counter, over `bytes`.
fn mask(bytes: &mut [u8], seed: &[u8]) {
    for (counter, chunk) in (0_u32..).zip(bytes.chunks_mut(HASH_BYTES)) {
        let hash = sha1(&[seed, &counter.to_be_bytes()].concat());
        chunk.iter_mut().zip(hash).for_each(|(byte, mask)| *byte ^= mask);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PEM: &str = include_str!("../../../tests/mysql/public_key.pem");

    #[test]
    fn keys_are_read_or_refused() {
        let key = PublicKey::read(PEM.as_bytes()).expect("a key");
        assert_eq!((key.n_bytes(), key.exponent), (256, 65_537));
        for wrong in [
            "",
            "-----BEGIN PUBLIC KEY-----\nMAA=\n-----END PUBLIC KEY-----\n",
            &PEM.replace("PUBLIC KEY", "PRIVATE KEY"),
        ] {
            assert_eq!(PublicKey::read(wrong.as_bytes()), None);
        }
        assert_eq!(key.encrypt(&[0; 215]), None);
        assert_eq!(key.encrypt(&[0; 214]).expect("it fits").len(), 256);
        assert_ne!(key.encrypt(b"x"), key.encrypt(b"x"));
    }

    #[test]
    fn powers_are_those_of_the_definition() {
        // 2^65537 and 7^3 modulo small numbers, by Python's pow.
        let key = PublicKey { modulus: vec![1_000_003], exponent: 65_537 };
        let mut power = vec![2];
        for _ in 0..16 {
            power = key.multiply(&power, &power);
        }
        assert_eq!(key.multiply(&power, &[2]), [RESULT]);
        let wide = PublicKey { modulus: vec![0xffff_fff1, 0xffff_ffff], exponent: 3 };
        assert_eq!(wide.multiply(&[0xffff_fff0, 0xffff_ffff], &[0xffff_fff0, 0xffff_ffff]), [1, 0]);
    }

    const RESULT: u32 = 50_199;
}
