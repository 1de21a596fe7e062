use super::State;
use crate::message::MessageId;
use crate::store::Cancellation;

impl State {
    pub(in crate::store::memory) fn cancel(&mut self, message: MessageId) -> Cancellation {
        let now = self.clock.now();
        let Some(row) = self.ids.get(&message).and_then(|id| self.rows.get(id)).filter(|row| row.delayed) else {
            return Cancellation::NotThere;
        };
        if row.epoch != 0 || self.is_locked(row, now) {
            return Cancellation::Taken;
        }
        let (key, topic) = (row.key, row.envelope.topic.clone());
        self.remove(key);
        Cancellation::Cancelled { topic }
    }
}
