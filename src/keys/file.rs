//! The provider `file`: the key-encryption key (KEK) is in a file of the server's user.
//!
//! The file has a KEK on each line. The first wraps; all unwrap. So a KEK is replaced by putting the new one before the old,
//! running `vault_tde.rewrap_keys()` in each database, and taking the old one out.

use zeroize::Zeroizing;

use super::provider::{random, random_key, KeyName, NewKey, Problem, Wrapping};
use super::secret_file::SecretFile;
use super::settings;
use crate::crypto::cipher::{Key, IV_LEN, KEY_LEN};
use crate::crypto::wrap::{self, UnwrapError};
use crate::pg::error::{CONFIG_FILE_ERROR, DATA_CORRUPTED, INTERNAL_ERROR};

/// Hexadecimal digits on a line.
const DIGITS: usize = 2 * KEY_LEN;
/// Lines that the file may have.
const KEYS_MAX: usize = 16;
/// More than a correct file can hold, so that a longer one is seen to be longer.
const READ_MAX: usize = KEYS_MAX * (DIGITS + 2) + 1;

const SETTING_HINT: &str = "Set \"pg_vault_tde.key_file\" to a file that holds 64 hexadecimal digits, as \
     \"openssl rand -hex 32\" prints them, with mode 0600 and owned by the server's operating-system user.";

/// Makes a random data key and wraps it.
pub fn generate(key: KeyName<'_>) -> Result<NewKey, Problem> {
    let dek = random_key()?;
    let wrapping = wrap(key, &dek)?;
    Ok(NewKey { dek, wrapping })
}

/// Wraps a data key under the first KEK.
pub fn wrap(key: KeyName<'_>, dek: &Key) -> Result<Wrapping, Problem> {
    let keks = Keks::read()?;
    let kek = keks.iter().next().ok_or_else(openssl_failed)?;
    let mut iv = [0; IV_LEN];
    random(&mut iv)?;
    let wrapped = wrap::wrap(kek, key.key_id, dek, &iv).map_err(|_| openssl_failed())?;
    Ok(Wrapping { wrapped: wrapped.to_vec(), kek_version: None })
}

/// Unwraps a data key.
pub fn unwrap(key: KeyName<'_>, wrapped: &[u8]) -> Result<Zeroizing<Key>, Problem> {
    unwrap_by(Keks::read()?.iter(), key, wrapped)
}

/// Whether the first KEK, by which data keys are wrapped now, unwraps this one.
pub fn is_current(key: KeyName<'_>, wrapped: &[u8]) -> bool {
    Keks::read().is_ok_and(|keks| unwrap_by(keks.iter().take(1), key, wrapped).is_ok())
}

/// Checks that the key file can be read, and returns how many KEKs it holds.
pub fn check() -> Result<usize, Problem> {
    Keks::read().map(|keks| keks.len)
}

fn unwrap_by<'a>(
    keks: impl Iterator<Item = &'a Key>,
    key: KeyName<'_>,
    wrapped: &[u8],
) -> Result<Zeroizing<Key>, Problem> {
    for kek in keks {
        match wrap::unwrap(kek, key.key_id, wrapped) {
            Ok(dek) => return Ok(dek),
            Err(UnwrapError::Authentication) => {}
            Err(UnwrapError::BadFormat) => {
                return Err(Problem::new(DATA_CORRUPTED, format!("the wrapped data key of {key} is malformed"))
                    .hint("Restore the database from a backup."));
            }
            Err(UnwrapError::Library) => return Err(openssl_failed()),
        }
    }
    let path = settings::key_file();
    let path = String::from_utf8_lossy(&path);
    Err(Problem::new(CONFIG_FILE_ERROR, format!("key file \"{path}\" does not fit the data key of {key}")).hint(
        "Set \"pg_vault_tde.key_file\" to the key file that was in use when this data key was made, or add that \
         file's key as another line. Without it, rows encrypted under this data key cannot be read.",
    ))
}

/// The KEKs of the key file.
struct Keks {
    keys: Zeroizing<[Key; KEYS_MAX]>,
    len: usize,
}

impl Keks {
    fn iter(&self) -> impl Iterator<Item = &Key> {
        self.keys[..self.len].iter()
    }

    fn read() -> Result<Keks, Problem> {
        let path = settings::key_file();
        let file = SecretFile { kind: "key file", setting: "pg_vault_tde.key_file", hint: SETTING_HINT, path: &path };
        let mut content = Zeroizing::new([0; READ_MAX]);
        let len = file.read(content.as_mut_slice())?;
        Keks::parse(&content[..len]).ok_or_else(|| {
            file.problem(format!("key file \"{}\" does not hold a key", file.shown())).detail(
                "It must hold exactly 64 hexadecimal digits, which a line end may follow, or several such lines: first \
                 the key that is in use, then older ones.",
            )
        })
    }

    fn parse(content: &[u8]) -> Option<Keks> {
        let mut keks = Keks { keys: Zeroizing::new([[0; KEY_LEN]; KEYS_MAX]), len: 0 };
        for line in content.strip_suffix(b"\n").unwrap_or(content).split(|&byte| byte == b'\n') {
            let digits: &[u8; DIGITS] = line.strip_suffix(b"\r").unwrap_or(line).try_into().ok()?;
            let key = keks.keys.get_mut(keks.len)?;
            for (byte, pair) in key.iter_mut().zip(digits.chunks_exact(2)) {
                *byte = (hex(pair[0])? << 4) | hex(pair[1])?;
            }
            keks.len += 1;
        }
        Some(keks)
    }
}

fn hex(digit: u8) -> Option<u8> {
    char::from(digit).to_digit(16).map(|value| value as u8)
}

fn openssl_failed() -> Problem {
    Problem::new(INTERNAL_ERROR, "OpenSSL could not encrypt or decrypt a data key")
}
