//! The services of the drill, as the commands of the runbooks name them.

use anyhow::{Result, bail};

use crate::world::World;

/// Does what the command asks; returns what it prints.
///
/// # Errors
///
/// The drill has no such service, or it fails.
pub(crate) fn obey(world: &World, words: &[String]) -> Result<String> {
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    match words[..] {
        ["systemctl", "start", "kafka"] => world.kafka().start_again()?,
        ["systemctl", "start", "postgresql"] => world.postgres().start_again()?,
        ["kubectl", "rollout", "undo", "deployment/shop"] => world.shop().deploy(|config| config.bug = None)?,
        ["kubectl", "rollout", "undo", "deployment/receiver"] => world.receiver.recover(),
        ["kubectl", "rollout", "history", "deployment/shop"] => return Ok("REVISION 1, 2".to_owned()),
        ["kubectl", "scale", "deployment/shop", "--replicas=1"] => world.shop().start()?,
        ["kubectl", "delete", "cronjob/outbox-cleanup"] => world.stop_cleanup(),
        ["kubectl", "set", "env", "deployment/shop", variable] => {
            let Some(("QUEUE_ROWS_MAX", value)) = variable.split_once('=') else { bail!("shop has no {variable}") };
            let value = value.parse()?;
            world.shop().deploy(|config| config.queue_rows_max = value)?;
        }
        _ => bail!("the drill has no service for this"),
    }
    Ok("done".to_owned())
}
