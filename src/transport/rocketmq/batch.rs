use rocketmq_model::common::message::MessageConst;
use rocketmq_model::common::message::message_client_id_setter::MessageClientIDSetter;

use super::record::Record;

/// The content of one request.
pub(super) enum Content {
    One(Record),
    /// Several records, framed one after the other.
    Batch(Vec<u8>),
}

impl Content {
    /// `None` where there is no record.
    pub(super) fn of(mut records: Vec<Record>) -> Option<Self> {
        if records.len() < 2 {
            return records.pop().map(Self::One);
        }
        let mut framed = Vec::with_capacity(records.iter().map(frame_bytes_max).sum());
        for record in records {
            frame(&record, &mut framed);
        }
        Some(Self::Batch(framed))
    }
}

/// Magic number, checksum and flags of a message: the broker writes its own.
const UNUSED: [u8; 12] = [0; 12];

/// The most that a message takes in a batch, approximately.
fn frame_bytes_max(record: &Record) -> usize {
    const OVERHEAD: usize = 128;
    record.body.len() + record.properties.len() + OVERHEAD
}

/// Writes a record in the form that brokers read in a batch: its size, the fields that they set themselves, the body
/// and the properties.
///
/// The client library would first make a map of each message's properties, and then a text.
fn frame(record: &Record, framed: &mut Vec<u8>) {
    // What Java's clients call the message's id. Current brokers replace it with the batch's own when they store it.
    let id = MessageClientIDSetter::create_uniq_id();
    let id = [MessageConst::PROPERTY_UNIQ_CLIENT_MESSAGE_ID_KEYIDX, "\u{1}", &id, "\u{2}"];
    let properties = record.properties.len() + id.iter().map(|part| part.len()).sum::<usize>();
    let size = 4 + UNUSED.len() + 4 + record.body.len() + 2 + properties;
    framed.extend_from_slice(&length(size));
    framed.extend_from_slice(&UNUSED);
    framed.extend_from_slice(&length(record.body.len()));
    framed.extend_from_slice(&record.body);
    // Two bytes are enough: the size of a message's properties is bounded below.
    framed.extend_from_slice(&length(properties)[2..]);
    framed.extend_from_slice(record.properties.as_bytes());
    id.iter().for_each(|part| framed.extend_from_slice(part.as_bytes()));
}

fn length(bytes: usize) -> [u8; 4] {
    u32::try_from(bytes).unwrap_or(u32::MAX).to_be_bytes()
}

#[cfg(test)]
mod tests {
    use rocketmq_model::common::message::MessageTrait as _;
    use rocketmq_protocol::common::message::message_decoder::{decode_messages, encode_messages};

    use super::*;

    fn record(body: &[u8], properties: &str) -> Record {
        Record { body: body.to_vec(), properties: properties.to_owned() }
    }

    #[test]
    fn one_record_is_sent_unbatched_and_none_is_not_sent() {
        assert!(matches!(Content::of(vec![record(b"a", "")]), Some(Content::One(_))));
        assert!(Content::of(Vec::new()).is_none());
    }

    #[test]
    fn a_batch_is_framed_as_by_the_client_library() {
        let records = vec![record(b"first", "TAGS\u{1}placed\u{2}KEYS\u{1}订单\u{2}"), record(&[7; 70_000], "")];
        let Some(Content::Batch(framed)) = Content::of(records) else { panic!("two are a batch") };
        let messages = decode_messages(&mut framed.clone().into());
        let held = |at: usize, name: &str| messages[at].get_properties().get(name).map(ToString::to_string);
        assert_eq!(messages.len(), 2);
        assert_eq!([0, 1].map(|at| messages[at].get_properties().len()), [3, 1]);
        assert_eq!((held(0, "TAGS").as_deref(), held(0, "KEYS").as_deref()), (Some("placed"), Some("订单")));
        assert_eq!(messages[0].get_body().map(|body| body.to_vec()), Some(b"first".to_vec()));
        assert_eq!(messages[1].get_body().map(|body| body.to_vec()), Some(vec![7; 70_000]));
        let ids = [0, 1].map(|at| held(at, "UNIQ_KEY").expect("an id"));
        assert_ne!(ids[0], ids[1]);
        // The properties of a message have no order.
        assert_eq!(encode_messages(&messages).len(), framed.len());
        assert_eq!(encode_messages(&messages[1..]), framed[framed.len() - encode_messages(&messages[1..]).len()..]);
    }
}
