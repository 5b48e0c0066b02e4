//! Key providers: who wraps a data key, so that it may lie in the key table, and unwraps it again.
//!
//! A provider is plain Rust that runs to its end before anything is raised: it returns a [`Problem`], which the caller
//! turns into an ERROR once nothing is left to drop.

use core::ffi::c_void;
use core::fmt;

use zeroize::Zeroizing;

use super::{file, settings};
use crate::crypto::cipher::{Key, KEY_LEN};
use crate::crypto::wrap::KeyId;
use crate::pg::error::{Report, SqlState, FEATURE_NOT_SUPPORTED, INTERNAL_ERROR};
use crate::pg::sys;

/// The providers that this version knows.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Provider {
    /// A key-encryption key in a file.
    File = 0,
}

/// A data key that a provider has just made.
pub struct NewKey {
    pub dek: Zeroizing<Key>,
    pub wrapped: Vec<u8>,
    /// The version of the key-encryption key, where the provider counts them.
    pub kek_version: Option<i32>,
}

/// Which data key is meant, for messages.
#[derive(Clone, Copy)]
pub struct KeyName<'a> {
    pub generation: i32,
    pub key_id: &'a KeyId,
}

impl fmt::Display for KeyName<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "generation {} (key id {})", self.generation, Uuid(self.key_id))
    }
}

/// A UUID in its usual form.
pub struct Uuid<'a>(pub &'a KeyId);

impl fmt::Display for Uuid<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, byte) in self.0.iter().enumerate() {
            if matches!(i, 4 | 6 | 8 | 10) {
                f.write_str("-")?;
            }
            write!(f, "{byte:02x}")?;
        }
        Ok(())
    }
}

/// Why a provider could not do its work: the parts of an ERROR.
pub struct Problem {
    pub code: SqlState,
    pub message: String,
    pub detail: String,
    pub hint: String,
}

impl Problem {
    pub fn new(code: SqlState, message: impl Into<String>) -> Problem {
        Problem { code, message: message.into(), detail: String::new(), hint: String::new() }
    }

    pub fn detail(mut self, text: impl Into<String>) -> Problem {
        self.detail = text.into();
        self
    }

    pub fn hint(mut self, text: impl Into<String>) -> Problem {
        self.hint = text.into();
        self
    }

    /// Copies the texts to PostgreSQL's memory; what is returned may be raised from a frame that owns nothing else.
    #[cold]
    pub fn into_report(self) -> Report {
        let mut report = Report::new(self.code, format_args!("{}", self.message));
        if !self.detail.is_empty() {
            report = report.detail(format_args!("{}", self.detail));
        }
        if !self.hint.is_empty() {
            report = report.hint(format_args!("{}", self.hint));
        }
        report
    }
}

impl Provider {
    /// All of them, for the configuration parameter.
    pub const ALL: [Provider; 1] = [Provider::File];

    /// The provider that new data keys are wrapped by: `pg_vault_tde.key_provider`.
    pub fn configured() -> Provider {
        let number = settings::KEY_PROVIDER.get();
        Self::ALL.into_iter().find(|p| *p as i32 == number).unwrap_or(Provider::File)
    }

    /// The provider whose name a row of the key table holds.
    fn of_name(name: &str) -> Option<Provider> {
        Self::ALL.into_iter().find(|p| p.name() == name)
    }

    pub fn name(self) -> &'static str {
        match self {
            Provider::File => "file",
        }
    }

    /// Makes a data key and wraps it.
    pub fn generate(self, key_id: &KeyId) -> Result<NewKey, Problem> {
        match self {
            Provider::File => file::generate(key_id),
        }
    }

    /// Whether the provider can be used now.
    pub fn check(self) -> Result<(), Problem> {
        match self {
            Provider::File => file::check(),
        }
    }
}

/// Unwraps a data key of the key table. `provider` is the name in its row, whatever the configured one is.
pub fn unwrap(provider: &str, key: KeyName<'_>, wrapped: &[u8]) -> Result<Zeroizing<Key>, Problem> {
    match Provider::of_name(provider) {
        Some(Provider::File) => file::unwrap(key, wrapped),
        None => Err(Problem::new(
            FEATURE_NOT_SUPPORTED,
            format!(
                "key provider \"{provider}\" of the data key of {key} is not supported by this version of pg_vault_tde"
            ),
        )),
    }
}

/// Fills `bytes` from the server's source of random bytes.
pub fn random(bytes: &mut [u8]) -> Result<(), Problem> {
    // SAFETY: pointer and length of a slice; the function raises nothing.
    if unsafe { sys::pg_strong_random(bytes.as_mut_ptr().cast::<c_void>(), bytes.len()) } {
        return Ok(());
    }
    Err(Problem::new(INTERNAL_ERROR, "could not generate random bytes for a key"))
}

/// A new random data key.
pub fn random_key() -> Result<Zeroizing<Key>, Problem> {
    let mut key = Zeroizing::new([0; KEY_LEN]);
    random(key.as_mut_slice())?;
    Ok(key)
}

/// A new key id: a random UUID (version 4).
pub fn random_key_id() -> Result<KeyId, Problem> {
    let mut id: KeyId = [0; 16];
    random(&mut id)?;
    id[6] = (id[6] & 0x0F) | 0x40;
    id[8] = (id[8] & 0x3F) | 0x80;
    Ok(id)
}
