//! A member of a consumer group, of its own making: it leads the group, and decides when it hands out partitions.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;

use super::bed::DEADLINE;

const JOIN_GROUP: (i16, i16) = (11, 2);
const SYNC_GROUP: (i16, i16) = (14, 0);
const OFFSET_COMMIT: (i16, i16) = (8, 2);
/// A member joins or leaves meanwhile: the leader has to join again.
const REBALANCE_IN_PROGRESS: i16 = 27;
const PROTOCOL: &str = "cooperative-sticky";
/// Longer than any test: it sends no heartbeats.
const SESSION_MS: i32 = 120_000;

pub(crate) struct Member {
    stream: TcpStream,
    group: String,
    id: String,
    generation: i32,
}

#[derive(Default)]
struct Body(Vec<u8>);

impl Body {
    fn text(mut self, text: &str) -> Self {
        self.0.extend(i16::try_from(text.len()).expect("short").to_be_bytes());
        self.0.extend(text.as_bytes());
        self
    }

    fn number<const N: usize>(mut self, bytes: [u8; N]) -> Self {
        self.0.extend(bytes);
        self
    }

    fn int(self, value: i32) -> Self {
        self.number(value.to_be_bytes())
    }

    fn bytes(self, body: Self) -> Self {
        let mut with_length = self.int(i32::try_from(body.0.len()).expect("short"));
        with_length.0.extend(body.0);
        with_length
    }
}

struct Answer(std::vec::IntoIter<u8>);

impl Answer {
    fn number<const N: usize>(&mut self) -> [u8; N] {
        std::array::from_fn(|_| self.0.next().expect("a whole answer"))
    }

    fn int(&mut self) -> i32 {
        i32::from_be_bytes(self.number())
    }

    fn text(&mut self) -> String {
        let length = i16::from_be_bytes(self.number());
        let bytes = (0..length).map(|_| self.0.next().expect("a whole answer")).collect();
        String::from_utf8(bytes).expect("text")
    }

    fn skip_bytes(&mut self) {
        let length = self.int();
        for _ in 0..length {
            self.0.next();
        }
    }

    #[track_caller]
    fn assert_fine(&mut self) {
        assert_eq!(i16::from_be_bytes(self.number()), 0, "an error code of Kafka");
    }
}

impl Member {
    pub(crate) fn new(bootstrap: &str, group: &str) -> Self {
        let stream = TcpStream::connect(bootstrap).expect("connect");
        stream.set_read_timeout(Some(DEADLINE)).expect("a deadline");
        Self { stream, group: group.to_owned(), id: String::new(), generation: 0 }
    }

    fn ask(&mut self, (api, version): (i16, i16), body: Body) -> Answer {
        let header = Body::default().number(api.to_be_bytes()).number(version.to_be_bytes()).int(7).text("member");
        let request = Body::default().bytes(Body([header.0, body.0].concat()));
        self.stream.write_all(&request.0).expect("send");
        let mut length = [0; 4];
        self.stream.read_exact(&mut length).expect("an answer");
        let mut answer = vec![0; usize::try_from(i32::from_be_bytes(length)).expect("a length")];
        self.stream.read_exact(&mut answer).expect("an answer");
        let mut answer = Answer(answer.into_iter());
        assert_eq!(answer.int(), 7, "the answer to this request");
        answer
    }

    /// Begins a rebalance, and waits until all members have joined; returns the others. Nobody has a partition before [`assign`](Self::assign),
    /// and the group takes no offsets.
    pub(crate) fn join(&mut self) -> Vec<String> {
        let subscription = Body::default().number([0, 0]).int(0).int(-1);
        let body = Body::default().text(&self.group).int(SESSION_MS).int(SESSION_MS).text(&self.id).text("consumer");
        let mut answer = self.ask(JOIN_GROUP, body.int(1).text(PROTOCOL).bytes(subscription));
        answer.int(); // throttle
        answer.assert_fine();
        self.generation = answer.int();
        let (_protocol, leader) = (answer.text(), answer.text());
        self.id = answer.text();
        assert_eq!(leader, self.id, "the first member leads the group");
        let members = (0..answer.int()).map(|_| {
            let id = answer.text();
            answer.skip_bytes();
            id
        });
        let mut members: Vec<String> = members.collect();
        members.retain(|id| *id != self.id);
        members
    }

    /// Gives this partition to a member, and nothing else to anybody. Returns whether the group is still as it was when it joined.
    #[must_use]
    pub(crate) fn assign(&mut self, to: &str, topic: &str, partition: i32) -> bool {
        let assignment = Body::default().number([0, 0]).int(1).text(topic).int(1).int(partition).int(-1);
        let body =
            Body::default().text(&self.group).int(self.generation).text(&self.id).int(1).text(to).bytes(assignment);
        match i16::from_be_bytes(self.ask(SYNC_GROUP, body).number()) {
            0 => true,
            REBALANCE_IN_PROGRESS => false,
            code => panic!("error code {code} of Kafka"),
        }
    }

    /// Takes the partition for itself.
    #[must_use]
    pub(crate) fn assign_to_itself(&mut self, topic: &str, partition: i32) -> bool {
        let id = self.id.clone();
        self.assign(&id, topic, partition)
    }

    pub(crate) fn commit(&mut self, topic: &str, partition: i32, next: i64) {
        let body = Body::default().text(&self.group).int(self.generation).text(&self.id).number((-1_i64).to_be_bytes());
        let body =
            body.int(1).text(topic).int(1).int(partition).number(next.to_be_bytes()).number((-1_i16).to_be_bytes());
        let mut answer = self.ask(OFFSET_COMMIT, body);
        assert_eq!((answer.int(), answer.text(), answer.int(), answer.int()), (1, topic.to_owned(), 1, partition));
        answer.assert_fine();
    }
}
