//! What the configuration parameters say about the key server.

use std::time::Duration;

use super::blob::TransitKey;
use crate::keys::provider::Problem;
use crate::keys::settings;
use crate::pg::error::CONFIG_FILE_ERROR;
use crate::pg::BackendCell;

/// How the key server is reached: copies of the settings, checked.
pub struct Config {
    /// Scheme, host, port, and perhaps a path, without a slash at the end.
    pub url: String,
    pub namespace: String,
    pub auth: Auth,
    /// Path of the file with CA certificates; empty for those of the system.
    pub ca_cert: Vec<u8>,
    /// For an operation as a whole.
    pub timeout: Duration,
}

/// How we prove who we are.
pub enum Auth {
    /// Path of a file that holds a token.
    TokenFile(Vec<u8>),
    AppRole {
        role_id: String,
        /// Path of a file that holds the secret id.
        secret_id_file: Vec<u8>,
    },
}

/// The key that wraps what is wrapped from now on.
pub fn configured_key() -> Result<TransitKey, Problem> {
    let name = printable(&settings::VAULT_KEY_NAME, "vault_key_name")?;
    let mount = printable(&settings::VAULT_TRANSIT_MOUNT, "vault_transit_mount")?;
    let mount = mount.trim_matches('/');
    let namespace = namespace()?;
    if name.is_empty() {
        return Err(Problem::new(CONFIG_FILE_ERROR, "\"pg_vault_tde.vault_key_name\" is not set")
            .hint("Set it to the name of a key of the Transit engine."));
    }
    TransitKey::new(&namespace, mount, &name).ok_or_else(|| {
        let setting = if TransitKey::new("", mount, "x").is_none() {
            "vault_transit_mount"
        } else if TransitKey::new("", "x", &name).is_none() {
            "vault_key_name"
        } else {
            "vault_namespace"
        };
        Problem::new(CONFIG_FILE_ERROR, format!("\"pg_vault_tde.{setting}\" is not a name"))
            .hint("Set it to a name of letters, digits, hyphens, underscores and dots.")
    })
}

impl Config {
    /// The settings as they are now.
    pub fn current() -> Result<Config, Problem> {
        Ok(Config {
            url: url()?,
            namespace: namespace()?,
            auth: auth()?,
            ca_cert: settings::text(&settings::VAULT_CA_CERT),
            timeout: settings::vault_timeout(),
        })
    }

    /// Whether what goes to the key server can be read on the way.
    pub fn is_in_the_clear(&self) -> bool {
        let Some(rest) = self.url.strip_prefix("http://") else { return false };
        let host = rest.split('/').next().unwrap_or(rest);
        let host = host.rsplit_once(':').map_or(host, |(host, _)| host);
        !(host == "localhost" || host == "[::1]" || host.starts_with("127."))
    }
}

fn url() -> Result<String, Problem> {
    const HINT: &str =
        "Set \"pg_vault_tde.vault_addr\" to the address of the key server, as https://vault.example:8200.";
    let address = printable(&settings::VAULT_ADDR, "vault_addr")?;
    if address.is_empty() {
        return Err(Problem::new(CONFIG_FILE_ERROR, "\"pg_vault_tde.vault_addr\" is not set").hint(HINT));
    }
    let url = address.trim_end_matches('/');
    let rest = url.strip_prefix("https://").or_else(|| url.strip_prefix("http://"));
    // a user name or a query has no place here, and might be a secret
    match rest {
        Some(rest) if !rest.is_empty() && !rest.contains(['@', '?', '#']) => Ok(url.to_owned()),
        _ => Err(Problem::new(CONFIG_FILE_ERROR, "\"pg_vault_tde.vault_addr\" is not an address").hint(HINT)),
    }
}

fn namespace() -> Result<String, Problem> {
    Ok(printable(&settings::VAULT_NAMESPACE, "vault_namespace")?.trim_matches('/').to_owned())
}

fn auth() -> Result<Auth, Problem> {
    const HINT: &str = "Set \"pg_vault_tde.vault_token_file\", or \"pg_vault_tde.vault_role_id\" together with \
         \"pg_vault_tde.vault_secret_id_file\".";
    let token_file = settings::text(&settings::VAULT_TOKEN_FILE);
    let role_id = printable(&settings::VAULT_ROLE_ID, "vault_role_id")?;
    let secret_id_file = settings::text(&settings::VAULT_SECRET_ID_FILE);
    let problem = |message| Err(Problem::new(CONFIG_FILE_ERROR, message).hint(HINT));
    match (token_file.is_empty(), role_id.is_empty(), secret_id_file.is_empty()) {
        (false, true, true) => Ok(Auth::TokenFile(token_file)),
        (true, false, false) => Ok(Auth::AppRole { role_id, secret_id_file }),
        (true, true, true) => problem("no token and no AppRole is set for the key server"),
        (false, ..) => problem("both a token file and an AppRole are set for the key server"),
        (true, ..) => problem("the AppRole for the key server lacks its role id or its secret id file"),
    }
}

/// A setting that goes into a URL, a header or a message: visible ASCII without spaces.
fn printable(setting: &BackendCell<*mut core::ffi::c_char>, name: &str) -> Result<String, Problem> {
    let text = settings::text(setting);
    match String::from_utf8(text) {
        Ok(text) if text.bytes().all(|b| b.is_ascii_graphic()) => Ok(text),
        _ => Err(Problem::new(CONFIG_FILE_ERROR, format!("\"pg_vault_tde.{name}\" holds characters that it may not"))
            .hint("It may hold letters, digits and punctuation of ASCII, and no spaces.")),
    }
}
