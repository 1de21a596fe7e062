/// The name of the subject under which the registry has an event's schema. These are the strategies of Confluent's clients.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum SubjectNames {
    /// `orders-value`: one schema for each topic. Confluent's `TopicNameStrategy`.
    #[default]
    Topic,
    /// `shop.OrderPlaced`, the full name of the record: for topics with several kinds of events. `RecordNameStrategy`.
    Record,
    /// `orders-shop.OrderPlaced`. `TopicRecordNameStrategy`.
    TopicRecord,
}

impl SubjectNames {
    /// `None` if it needs the topic, and there is none.
    pub(super) fn subject(self, topic: Option<&str>, record: &str) -> Option<String> {
        match self {
            Self::Topic => topic.map(|topic| format!("{topic}-value")),
            Self::Record => Some(record.to_owned()),
            Self::TopicRecord => topic.map(|topic| format!("{topic}-{record}")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn subjects_are_named_as_by_other_clients() {
        let of = |names: SubjectNames, topic| names.subject(topic, "shop.OrderPlaced");
        assert_eq!(of(SubjectNames::Topic, Some("orders")).as_deref(), Some("orders-value"));
        assert_eq!(of(SubjectNames::Record, Some("orders")).as_deref(), Some("shop.OrderPlaced"));
        assert_eq!(of(SubjectNames::TopicRecord, Some("orders")).as_deref(), Some("orders-shop.OrderPlaced"));
        assert_eq!(of(SubjectNames::Topic, None), None);
        assert_eq!(of(SubjectNames::Record, None).as_deref(), Some("shop.OrderPlaced"));
    }
}
