//! A data key as the key table holds it when a Transit key has wrapped it: which key that was, and its ciphertext.
//!
//! ```text
//! 1 LF namespace LF mount LF key name LF vault:vN:...
//! ```
//!
//! The key is named, since the configured one may be another by the time the data key is unwrapped.

/// A key of a Transit engine.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TransitKey {
    pub namespace: String,
    pub mount: String,
    pub name: String,
}

impl TransitKey {
    /// None unless these are names: what is made of them is a path, on which our token is used.
    pub fn new(namespace: &str, mount: &str, name: &str) -> Option<TransitKey> {
        let is_name = |text: &str| {
            !matches!(text, "" | "." | "..")
                && text.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.'))
        };
        let is_path = |text: &str| text.split('/').all(is_name);
        ((namespace.is_empty() || is_path(namespace)) && is_path(mount) && is_name(name)).then(|| TransitKey {
            namespace: namespace.to_owned(),
            mount: mount.to_owned(),
            name: name.to_owned(),
        })
    }

    /// The path of an operation with the key, as policies name it.
    pub fn path(&self, operation: &str) -> String {
        format!("{}/{operation}/{}", self.mount, self.name)
    }
}

const FORMAT: &str = "1";

/// What Transit calls a ciphertext.
pub struct Blob<'a> {
    pub key: TransitKey,
    pub ciphertext: &'a str,
}

impl Blob<'_> {
    pub fn parse(wrapped: &[u8]) -> Option<Blob<'_>> {
        let text = core::str::from_utf8(wrapped).ok()?;
        let mut lines = text.split('\n');
        let mut next = || lines.next();
        let (format, namespace, mount, name, ciphertext) = (next()?, next()?, next()?, next()?, next()?);
        if format != FORMAT || next().is_some() || version(ciphertext).is_none() {
            return None;
        }
        Some(Blob { key: TransitKey::new(namespace, mount, name)?, ciphertext })
    }
}

/// The bytes for the key table.
pub fn build(key: &TransitKey, ciphertext: &str) -> Vec<u8> {
    format!("{FORMAT}\n{}\n{}\n{}\n{ciphertext}", key.namespace, key.mount, key.name).into_bytes()
}

/// The version of the Transit key that made a ciphertext, `vault:vN:…`; None if it is none.
pub fn version(ciphertext: &str) -> Option<i32> {
    let (version, rest) = ciphertext.strip_prefix("vault:v")?.split_once(':')?;
    let plain = |b: u8| b.is_ascii_alphanumeric() || b"+/=-_:".contains(&b);
    if rest.is_empty() || !rest.bytes().all(plain) || !version.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    version.parse().ok()
}
