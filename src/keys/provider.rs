//! Key providers: who wraps a data key, so that it may lie in the key table, and unwraps it again.
//!
//! A provider is plain Rust that runs to its end before anything is raised: it returns a [`Problem`], which the caller
//! turns into an ERROR once nothing is left to drop.

use core::ffi::c_void;
use core::fmt;

use zeroize::Zeroizing;

use super::{file, settings, vault};
use crate::crypto::cipher::{Key, KEY_LEN};
use crate::crypto::wrap::KeyId;
use crate::pg::error::{Report, SqlState, FEATURE_NOT_SUPPORTED, INTERNAL_ERROR};
use crate::pg::sys;

/// The providers that this version knows.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Provider {
    /// A key-encryption key in a file.
    File = 0,
    /// A key-encryption key of the Transit engine of a HashiCorp Vault or OpenBao server.
    Vault = 1,
}

/// A data key as a provider has wrapped it.
pub struct Wrapping {
    pub wrapped: Vec<u8>,
    /// The version of the key-encryption key, where the provider counts them.
    pub kek_version: Option<i32>,
}

/// A data key that a provider has just made.
pub struct NewKey {
    pub dek: Zeroizing<Key>,
    pub wrapping: Wrapping,
}

/// A row of what `vault_tde.status()` says about the provider.
pub struct Finding {
    pub item: &'static str,
    pub value: String,
    pub ok: bool,
}

impl Finding {
    pub fn new(item: &'static str, value: impl Into<String>, ok: bool) -> Finding {
        Finding { item, value: value.into(), ok }
    }

    /// Whether the provider can be used; if not, why.
    pub fn usable(result: Result<String, Problem>) -> Finding {
        const ITEM: &str = "key provider usable";
        match result {
            Ok(how) => Finding::new(ITEM, how, true),
            Err(problem) if problem.detail.is_empty() => Finding::new(ITEM, format!("no: {}", problem.message), false),
            Err(problem) => Finding::new(ITEM, format!("no: {} ({})", problem.message, problem.detail), false),
        }
    }
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
    pub const ALL: [Provider; 2] = [Provider::File, Provider::Vault];

    /// The provider that new data keys are wrapped by: `pg_vault_tde.key_provider`.
    pub fn configured() -> Provider {
        let number = settings::KEY_PROVIDER.get();
        Self::ALL.into_iter().find(|p| *p as i32 == number).unwrap_or(Provider::File)
    }

    /// The provider whose name a row of the key table holds.
    pub fn of_name(name: &str) -> Option<Provider> {
        Self::ALL.into_iter().find(|p| p.name() == name)
    }

    pub fn name(self) -> &'static str {
        match self {
            Provider::File => "file",
            Provider::Vault => "vault",
        }
    }

    /// Makes a data key and wraps it.
    pub fn generate(self, key: KeyName<'_>) -> Result<NewKey, Problem> {
        match self {
            Provider::File => file::generate(key),
            Provider::Vault => vault::generate(key),
        }
    }

    /// Wraps a data key that exists.
    fn wrap(self, key: KeyName<'_>, dek: &Key) -> Result<Wrapping, Problem> {
        match self {
            Provider::File => file::wrap(key, dek),
            Provider::Vault => vault::wrap(key, dek),
        }
    }

    /// Wraps anew, under the newest key-encryption key of this provider, the data key that `from` has wrapped. `known` is
    /// the data key if this server has it in memory: then it need not be unwrapped, which may not be possible any more.
    /// Within one Transit key the key server does it all, and the data key stays there.
    pub fn rewrap(
        self,
        key: KeyName<'_>,
        from: &str,
        wrapped: &[u8],
        known: Option<&Key>,
    ) -> Result<Wrapping, Problem> {
        if self == Provider::Vault && from == self.name() {
            match vault::rewrap(key, wrapped) {
                Ok(Some(wrapping)) => return Ok(wrapping),
                Ok(None) => {}
                Err(problem) => return known.and_then(|dek| self.wrap(key, dek).ok()).ok_or(problem),
            }
        }
        match known {
            Some(dek) => self.wrap(key, dek),
            None => self.wrap(key, &*unwrap(from, key, wrapped)?),
        }
    }

    /// Whether a data key is wrapped by this provider's newest key-encryption key, whose version is `newest`, where the
    /// provider counts them. Never asks a key server.
    pub fn is_current(
        self,
        key: KeyName<'_>,
        from: &str,
        wrapped: &[u8],
        version: Option<i32>,
        newest: Option<i32>,
    ) -> bool {
        from == self.name()
            && match self {
                Provider::File => file::is_current(key, wrapped),
                Provider::Vault => vault::is_of_configured_key(wrapped) && (newest.is_none() || newest <= version),
            }
    }

    /// Whether the provider can be used now, for `vault_tde.status()`, and the newest version of its key-encryption key.
    pub fn examine(self) -> (Vec<Finding>, Option<i32>) {
        match self {
            Provider::File => {
                let usable = file::check().map(|keys| match keys {
                    1 => "yes".to_owned(),
                    _ => format!("yes; {} older keys in the key file", keys - 1),
                });
                (vec![Finding::usable(usable)], None)
            }
            Provider::Vault => vault::examine(),
        }
    }
}

/// Unwraps a data key of the key table. `provider` is the name in its row, whatever the configured one is.
pub fn unwrap(provider: &str, key: KeyName<'_>, wrapped: &[u8]) -> Result<Zeroizing<Key>, Problem> {
    match Provider::of_name(provider) {
        Some(Provider::File) => file::unwrap(key, wrapped),
        Some(Provider::Vault) => vault::unwrap(key, wrapped),
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
