//! The two stages of a shutdown: first nothing new is taken, then nothing is waited for.

use tokio::sync::watch;

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Stage {
    Running,
    /// Nothing is claimed any more. What is in hand is sent and settled.
    Draining,
    /// Everything ends as soon as it can.
    Ending,
}

#[derive(Debug)]
pub(crate) struct Stop(watch::Sender<Stage>);

impl Default for Stop {
    fn default() -> Self {
        Self(watch::Sender::new(Stage::Running))
    }
}

impl Stop {
    /// Moves on to `stage`; never back.
    pub(crate) fn advance(&self, stage: Stage) {
        self.0.send_if_modified(|current| {
            let later = stage > *current;
            if later {
                *current = stage;
            }
            later
        });
    }

    pub(crate) fn has_reached(&self, stage: Stage) -> bool {
        *self.0.borrow() >= stage
    }

    /// Waits for `stage`. Cancel safe.
    pub(crate) async fn reached(&self, stage: Stage) {
        let mut watch = self.0.subscribe();
        // `self` owns the sender, so it cannot be dropped while this waits.
        let _ = watch.wait_for(|current| *current >= stage).await;
    }
}
