//! Encryption: what is asked of it, whom it trusts, and what SCRAM binds to.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, WebPkiSupportedAlgorithms, ring, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::sign::{CertifiedKey, SingleCertAndKey};
use rustls::{CertificateError, ClientConfig, DigitallySignedStruct, InconsistentKeys, RootCertStore, SignatureScheme};
use sha2::{Digest, Sha256, Sha384, Sha512};
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use super::socket::Socket;

/// Whether and how connections over TCP are encrypted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TlsMode {
    /// Never.
    #[default]
    Disable,
    /// When the server offers it; its certificate is not checked.
    Prefer,
    /// Always; the server's certificate is not checked.
    Require,
    /// Always, and the server's certificate must be from a trusted authority, for whatever host.
    VerifyCa,
    /// Always, and the server's certificate must be for its host name and from a trusted authority.
    VerifyFull,
}

impl TlsMode {
    /// From its name as users write it.
    pub fn from_name(name: &str) -> Option<Self> {
        match name {
            "disable" => Some(Self::Disable),
            "prefer" => Some(Self::Prefer),
            "require" => Some(Self::Require),
            "verify-ca" => Some(Self::VerifyCa),
            "verify-full" => Some(Self::VerifyFull),
            _ => None,
        }
    }
}

/// Files of certificates and keys in PEM.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TlsFiles {
    /// The authorities to trust where the server's certificate is verified; the system's without it. A server's own
    /// certificate may stand there if it is not marked as an authority's (`CA:FALSE`).
    pub roots: Option<PathBuf>,
    /// Our own certificate, followed by those between it and the authority that the server trusts.
    pub certificate: Option<PathBuf>,
    /// The key of `certificate`, without a password.
    pub key: Option<PathBuf>,
}

/// Encrypts sockets.
pub(super) struct Tls {
    /// Whether a server without TLS is refused.
    pub(super) is_required: bool,
    connector: TlsConnector,
}

impl Tls {
    /// `None` when nothing is to be encrypted; the error names the file that cannot be used.
    pub(super) fn new(mode: TlsMode, files: &TlsFiles) -> Result<Option<Self>, String> {
        if mode == TlsMode::Disable {
            return Ok(None);
        }
        let provider = Arc::new(ring::default_provider());
        let builder = ClientConfig::builder_with_provider(Arc::clone(&provider))
            .with_safe_default_protocol_versions()
            .map_err(|error| format!("tls: {error}"))?;
        let roots = files.roots.as_deref();
        let builder = if mode == TlsMode::VerifyFull {
            builder.with_root_certificates(trusted(roots)?)
        } else {
            let verifier = match mode {
                TlsMode::VerifyCa => {
                    let roots = Arc::new(trusted(roots)?);
                    let verifier = WebPkiServerVerifier::builder_with_provider(roots, Arc::clone(&provider)).build();
                    Some(verifier.map_err(|error| format!("tls: {error}"))?)
                }
                _ => None,
            };
            let lenient = Lenient { verifier, provider: Arc::clone(&provider) };
            builder.dangerous().with_custom_certificate_verifier(Arc::new(lenient))
        };
        let config = match identity(files)? {
            Some(own) => {
                let own = checked(own, &provider).map_err(|error| format!("tls: {error}"))?;
                builder.with_client_cert_resolver(Arc::new(own))
            }
            None => builder.with_no_client_auth(),
        };
        Ok(Some(Self { is_required: mode != TlsMode::Prefer, connector: TlsConnector::from(Arc::new(config)) }))
    }

    pub(super) async fn wrap(&self, host: &str, socket: Socket) -> io::Result<TlsStream<Socket>> {
        let name = ServerName::try_from(host.to_owned()).map_err(io::Error::other)?;
        self.connector.connect(name, socket).await.map_err(told)
    }
}

/// In words where rustls has a name only.
fn told(error: io::Error) -> io::Error {
    if !error.to_string().contains("UnsupportedCertVersion") {
        return error;
    }
    let words = "invalid peer certificate: it is of X.509 version 1 and cannot be verified; openssl makes one of version 3 \
                 with -extfile";
    io::Error::new(error.kind(), words)
}

fn trusted(file: Option<&Path>) -> Result<RootCertStore, String> {
    let mut store = RootCertStore::empty();
    let Some(file) = file else {
        // Single certificates that cannot be read are common in the system's store and no reason to stop.
        store.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
        if store.is_empty() {
            return Err("tls: the system has no trusted certificates".to_owned());
        }
        return Ok(store);
    };
    for certificate in certificates(file)? {
        store.add(certificate).map_err(|error| broken(file, &error))?;
    }
    Ok(store)
}

fn broken(file: &Path, error: &dyn std::fmt::Display) -> String {
    format!("tls: {}: {error}", file.display())
}

/// All certificates of a file, at least one.
fn certificates(file: &Path) -> Result<Vec<CertificateDer<'static>>, String> {
    let found = CertificateDer::pem_file_iter(file).map_err(|error| broken(file, &error))?;
    let found: Vec<_> = found.collect::<Result<_, _>>().map_err(|error| broken(file, &error))?;
    if found.is_empty() { Err(broken(file, &"it holds no certificate")) } else { Ok(found) }
}

/// What we show to a server that asks who we are; `None` when there is nothing to show.
fn identity(files: &TlsFiles) -> Result<Option<Identity>, String> {
    match (&files.certificate, &files.key) {
        (None, None) => Ok(None),
        (Some(certificate), Some(key)) => {
            let chain = certificates(certificate)?;
            let own = PrivateKeyDer::from_pem_file(key).map_err(|error| broken(key, &error))?;
            Ok(Some((chain, own)))
        }
        (Some(file), None) => Err(broken(file, &"a certificate needs its key")),
        (None, Some(file)) => Err(broken(file, &"a key needs its certificate")),
    }
}

type Identity = (Vec<CertificateDer<'static>>, PrivateKeyDer<'static>);

/// Refuses a key that is another's. One of X.509's first version cannot be read here; the server compares it.
fn checked((chain, key): Identity, provider: &CryptoProvider) -> Result<SingleCertAndKey, rustls::Error> {
    let own = CertifiedKey::new(chain, provider.key_provider.load_private_key(key)?);
    match own.keys_match() {
        Ok(())
        | Err(rustls::Error::InconsistentKeys(InconsistentKeys::Unknown))
        | Err(rustls::Error::InvalidCertificate(CertificateError::Other(_))) => Ok(own.into()),
        Err(error) => Err(error),
    }
}

/// Takes what `verify-full` would not: a certificate of a trusted authority for whatever host it is, or any at all, as
/// "require" means it. Who shows it must have its key in any case.
#[derive(Debug)]
struct Lenient {
    /// What checks all but the host; `None`: nothing does.
    verifier: Option<Arc<WebPkiServerVerifier>>,
    provider: Arc<CryptoProvider>,
}

impl ServerCertVerifier for Lenient {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        let Some(verifier) = &self.verifier else { return Ok(ServerCertVerified::assertion()) };
        match verifier.verify_server_cert(end_entity, intermediates, server_name, ocsp_response, now) {
            // The name is looked at last: everything else was right.
            Err(rustls::Error::InvalidCertificate(
                CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. },
            )) => Ok(ServerCertVerified::assertion()),
            result => result,
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.require_key(message, certificate, signature, verify_tls12_signature)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.require_key(message, certificate, signature, verify_tls13_signature)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}

type Check = fn(
    &[u8],
    &CertificateDer<'_>,
    &DigitallySignedStruct,
    &WebPkiSupportedAlgorithms,
) -> Result<HandshakeSignatureValid, rustls::Error>;

impl Lenient {
    /// Whether who shows a certificate has its key. Where nothing else of it counts nothing else is read: `check` refuses one of
    /// X.509's first version, which openssl makes by the recipes in the manuals of PostgreSQL and MySQL.
    fn require_key(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
        check: Check,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        let Some((kind, key)) = public_key(certificate).filter(|_| self.verifier.is_none()) else {
            return check(message, certificate, signature, algorithms);
        };
        let of_scheme = algorithms.mapping.iter().filter(|(scheme, _)| *scheme == signature.scheme);
        let is_signed = of_scheme.flat_map(|(_, several)| *several).any(|algorithm| {
            algorithm.public_key_alg_id().as_ref() == kind
                && algorithm.verify_signature(key, message, signature.signature()).is_ok()
        });
        if is_signed { Ok(HandshakeSignatureValid::assertion()) } else { Err(CertificateError::BadSignature.into()) }
    }
}

/// Algorithm and bits of a certificate's public key.
fn public_key(certificate: &[u8]) -> Option<(&[u8], &[u8])> {
    let (fields, _) = element(certificate)?;
    let (signed, _) = element(fields)?;
    // The version has a tag of its own; those of the first have none.
    let mut rest = if signed.first()? == &0xa0 { element(signed)?.1 } else { signed };
    // Serial number, algorithm of the signature, issuer, dates, subject.
    for _ in 0..5 {
        rest = element(rest)?.1;
    }
    let (own, _) = element(rest)?;
    let (kind, rest) = element(own)?;
    let (bits, _) = element(rest)?;
    // In front of the bits stands how many of the last byte's are none: 0.
    Some((kind, bits.strip_prefix(b"\0")?))
}

/// The certificate's hash for "tls-server-end-point" (RFC 5929, section 4.1): by the hash of its own signature, MD5 and
/// SHA-1 raised to SHA-256; `None` for signatures that have no hash of their own.
pub(super) fn end_point(certificate: &[u8]) -> Option<Vec<u8>> {
    // Certificate is a sequence of the part that is signed, the signature's algorithm, and the signature.
    let (fields, _) = element(certificate)?;
    let (_, rest) = element(fields)?;
    let (algorithm, _) = element(rest)?;
    let (oid, _) = element(algorithm)?;
    match oid {
        // With RSA (1.2.840.113549.1.1.x): MD5, SHA-1, SHA-256, SHA-384, SHA-512.
        [0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x01, last] => match last {
            4 | 5 | 11 => Some(Sha256::digest(certificate).to_vec()),
            12 => Some(Sha384::digest(certificate).to_vec()),
            13 => Some(Sha512::digest(certificate).to_vec()),
            _ => None,
        },
        // With ECDSA (1.2.840.10045.4.x): SHA-1; SHA-256, SHA-384, SHA-512.
        [0x2a, 0x86, 0x48, 0xce, 0x3d, 0x04, 1] | [0x2a, 0x86, 0x48, 0xce, 0x3d, 0x04, 3, 2] => {
            Some(Sha256::digest(certificate).to_vec())
        }
        [0x2a, 0x86, 0x48, 0xce, 0x3d, 0x04, 3, 3] => Some(Sha384::digest(certificate).to_vec()),
        [0x2a, 0x86, 0x48, 0xce, 0x3d, 0x04, 3, 4] => Some(Sha512::digest(certificate).to_vec()),
        _ => None,
    }
}

/// The contents of the first DER element, and what follows it.
pub(super) fn element(der: &[u8]) -> Option<(&[u8], &[u8])> {
    let (_tag, rest) = der.split_first()?;
    let (&first, rest) = rest.split_first()?;
    if first < 0x80 {
        return rest.split_at_checked(usize::from(first));
    }
    let (length, rest) = rest.split_at_checked(usize::from(first & 0x7f))?;
    let length =
        length.iter().try_fold(0_usize, |length, &byte| length.checked_mul(256)?.checked_add(usize::from(byte)))?;
    rest.split_at_checked(length)
}

#[cfg(test)]
mod tests {
    use ::ring::rand::SystemRandom;
    use ::ring::signature::{ECDSA_P256_SHA256_ASN1_SIGNING, EcdsaKeyPair, KeyPair};
    use rustls::internal::msgs::codec::Codec;
    use rustls::pki_types::alg_id;

    use super::*;

    /// A certificate as far as the hash looks: an empty signed part, then the algorithm.
    fn certificate(oid: &[u8]) -> Vec<u8> {
        let n_bytes = u8::try_from(oid.len()).expect("short");
        let algorithm = [&[0x30, n_bytes + 2, 0x06, n_bytes][..], oid].concat();
        let fields = [&[0x30, 0x81, 0x00][..], &algorithm].concat();
        [&[0x30, 0x82, 0x00, u8::try_from(fields.len()).expect("short")][..], &fields].concat()
    }

    #[test]
    fn the_certificates_own_hash_is_what_is_bound() {
        let rsa = |last| vec![0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x01, last];
        let ecdsa = |rest: &[u8]| [&[0x2a, 0x86, 0x48, 0xce, 0x3d, 0x04], rest].concat();
        let lengths = [
            (rsa(5), Some(32)),
            (rsa(11), Some(32)),
            (rsa(12), Some(48)),
            (rsa(13), Some(64)),
            (rsa(10), None),
            (ecdsa(&[3, 2]), Some(32)),
            (ecdsa(&[3, 3]), Some(48)),
            (ecdsa(&[3, 4]), Some(64)),
            (vec![0x2b, 0x65, 0x70], None),
        ];
        for (oid, n_bytes) in lengths {
            assert_eq!(end_point(&certificate(&oid)).map(|hash| hash.len()), n_bytes, "{oid:?}");
        }
    }

    #[test]
    fn what_is_no_certificate_is_not_bound() {
        let whole = certificate(&[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x01, 11]);
        for n_bytes in 0..whole.len() {
            assert_eq!(end_point(&whole[..n_bytes]), None);
        }
    }

    fn der(tag: u8, parts: &[&[u8]]) -> Vec<u8> {
        let contents = parts.concat();
        let n_bytes = u8::try_from(contents.len()).expect("short");
        let length = if n_bytes < 0x80 { vec![n_bytes] } else { vec![0x81, n_bytes] };
        [&[tag][..], &length, &contents].concat()
    }

    /// A certificate with this public key and no more than what must stand in front of it.
    fn bare(version: &[u8], key: &[u8]) -> CertificateDer<'static> {
        let own = der(0x30, &[&der(0x30, &[alg_id::ECDSA_P256.as_ref()]), &der(0x03, &[b"\0", key])]);
        let none = der(0x30, &[]);
        let signed = der(0x30, &[version, &der(0x02, &[b"\x01"]), &none, &none, &none, &none, &own]);
        der(0x30, &[&signed, &none, &der(0x03, &[b"\0"])]).into()
    }

    #[test]
    fn who_shows_a_certificate_of_any_version_must_have_its_key() {
        let own = || {
            let (random, kind) = (SystemRandom::new(), &ECDSA_P256_SHA256_ASN1_SIGNING);
            let made = EcdsaKeyPair::generate_pkcs8(kind, &random).expect("random numbers");
            (EcdsaKeyPair::from_pkcs8(kind, made.as_ref(), &random).expect("a key"), made)
        };
        let ((one, document), (other, _)) = (own(), own());
        let lenient = Lenient { verifier: None, provider: Arc::new(ring::default_provider()) };
        let first = vec![bare(b"", one.public_key().as_ref())];
        let key = PrivateKeyDer::Pkcs8(document.as_ref().to_vec().into());
        assert!(checked((first, key), &lenient.provider).is_ok());
        let third = der(0xa0, &[&der(0x02, &[b"\x02"])]);
        for version in [&b""[..], &third] {
            let shown = bare(version, one.public_key().as_ref());
            let judged = |key: &EcdsaKeyPair, scheme: SignatureScheme| {
                let signature = key.sign(&SystemRandom::new(), b"hello").expect("random numbers");
                let length = u16::try_from(signature.as_ref().len()).expect("short").to_be_bytes();
                let sent = [&u16::from(scheme).to_be_bytes()[..], &length, signature.as_ref()].concat();
                let signed = DigitallySignedStruct::read_bytes(&sent).expect("sound");
                lenient.verify_tls13_signature(b"hello", &shown, &signed).is_ok()
            };
            assert!(judged(&one, SignatureScheme::ECDSA_NISTP256_SHA256));
            assert!(!judged(&other, SignatureScheme::ECDSA_NISTP256_SHA256));
            assert!(!judged(&one, SignatureScheme::RSA_PSS_SHA256));
            for n_bytes in 0..shown.len() {
                assert_eq!(public_key(&shown[..n_bytes]), None);
            }
        }
    }

    #[test]
    fn files_without_certificates_are_named() {
        for mode in [TlsMode::VerifyCa, TlsMode::VerifyFull] {
            let refused = |file: &str| {
                let files = TlsFiles { roots: Some(PathBuf::from(file)), ..TlsFiles::default() };
                Tls::new(mode, &files).err().expect("no certificate")
            };
            let text = refused("/nonexistent/root.crt");
            assert!(text.starts_with("tls: /nonexistent/root.crt: "), "{text}");
            assert_eq!(refused("/dev/null"), "tls: /dev/null: it holds no certificate");
        }
    }

    #[test]
    fn a_certificate_needs_its_key() {
        let file = || Some(PathBuf::from("/dev/null"));
        let refused = |certificate, key| {
            let files = TlsFiles { certificate, key, ..TlsFiles::default() };
            Tls::new(TlsMode::Require, &files).err().expect("refused")
        };
        assert_eq!(refused(file(), None), "tls: /dev/null: a certificate needs its key");
        assert_eq!(refused(None, file()), "tls: /dev/null: a key needs its certificate");
        assert_eq!(refused(file(), file()), "tls: /dev/null: it holds no certificate");
    }

    #[test]
    fn modes_have_the_names_that_users_know() {
        let names = ["disable", "prefer", "require", "verify-ca", "verify-full", "allow"];
        let modes = names.map(TlsMode::from_name);
        let known = [TlsMode::Disable, TlsMode::Prefer, TlsMode::Require, TlsMode::VerifyCa, TlsMode::VerifyFull];
        assert_eq!(modes[..5], known.map(Some));
        assert_eq!(modes[5], None);
    }
}
