//! One user's connection: records as documents.

use std::fmt::Write;
use std::sync::Arc;

use super::bson::{Document, Value, Writer};
use super::wire::{Wire, judged};
use crate::driver::{ErrorClass, Failure, Session, Uncancellable};
use crate::pairs::{Command, Pairs, PairsAnswer, PairsRequest};

/// One user's connection to a server that speaks OP_MSG.
pub struct MongodbSession {
    wire: Wire,
    database: Arc<str>,
    collection: Arc<str>,
    name: String,
    is_lost: bool,
}

impl MongodbSession {
    pub(super) fn new(wire: Wire, database: Arc<str>, collection: Arc<str>) -> Self {
        Self { wire, database, collection, name: String::new(), is_lost: false }
    }

    async fn ask(&mut self, request: &PairsRequest) -> Result<u64, Failure> {
        let Self { wire, database, collection, name, .. } = self;
        let asked = wire.ask(database, |out| write(request, collection, name, out)).await?;
        let answer = judged(asked)?;
        match request.command {
            Command::Get | Command::Scan => read(request, answer),
            Command::Insert | Command::Update => {
                let n_rows = answer.get("n").and_then(Value::number).unwrap_or(0.0) as u64;
                request.judge(n_rows)
            }
        }
    }
}

/// "field" and the number, in the buffer.
fn field(number: u32, name: &mut String) -> &str {
    name.clear();
    // Writing to a String cannot fail.
    let _ = write!(name, "field{number}");
    name
}

fn write(request: &PairsRequest, collection: &str, name: &mut String, out: &mut Writer) {
    match request.command {
        Command::Get | Command::Scan => find(request, collection, name, out),
        Command::Insert => insert(request, collection, name, out),
        Command::Update => update(request, collection, name, out),
    }
}

fn find(request: &PairsRequest, collection: &str, name: &mut String, out: &mut Writer) {
    out.text("find", collection);
    out.document("filter");
    if request.command == Command::Scan {
        out.document("_id");
        out.text("$gte", request.key(0));
        out.close();
    } else {
        out.text("_id", request.key(0));
    }
    out.close();
    if request.command == Command::Scan {
        out.document("sort");
        out.int("_id", 1);
        out.close();
    }
    if let Some(number) = request.field {
        out.document("projection");
        out.int(field(number, name), 1);
        out.close();
    }
    // All records in one answer, and no cursor left open.
    let limit = request.limit.min(i32::MAX as u32) as i32;
    out.int("limit", limit);
    out.int("batchSize", limit);
    out.flag("singleBatch", true);
}

fn insert(request: &PairsRequest, collection: &str, name: &mut String, out: &mut Writer) {
    out.text("insert", collection);
    out.array("documents");
    for index in 0..request.n_keys() {
        name.clear();
        let _ = write!(name, "{index}");
        out.document(name);
        out.text("_id", request.key(index));
        fields(request, index, name, out);
        out.close();
    }
    out.close();
    out.flag("ordered", true);
}

fn update(request: &PairsRequest, collection: &str, name: &mut String, out: &mut Writer) {
    out.text("update", collection);
    out.array("updates");
    out.document("0");
    out.document("q");
    out.text("_id", request.key(0));
    out.close();
    out.document("u");
    out.document("$set");
    fields(request, 0, name, out);
    out.close();
    out.close();
    out.close();
    out.close();
    out.flag("ordered", true);
}

/// The values of a record, under the names of their fields; as binary values, which no server looks into.
fn fields(request: &PairsRequest, record: usize, name: &mut String, out: &mut Writer) {
    for (index, value) in request.values(record).enumerate() {
        let number = request.field.unwrap_or(index as u32);
        out.binary(field(number, name), value.as_bytes());
    }
}

/// The records of an answer, each with the fields that it must have.
fn read(request: &PairsRequest, answer: Document<'_>) -> Result<u64, Failure> {
    let cursor = answer.get("cursor").and_then(Value::document);
    let Some(batch) = cursor.and_then(|cursor| cursor.get("firstBatch")).and_then(Value::document) else {
        return Err(Failure::protocol("an answer without records"));
    };
    let mut n_rows = 0;
    for element in batch.elements() {
        let Some((_, Value::Document(record))) = element else {
            return Err(Failure::protocol("a record that is no document"));
        };
        n_rows += 1;
        let own = record.elements().map_while(|element| element).filter(|(name, _)| *name != "_id");
        // What has another type counts as no bytes.
        request.judge_fields(own.map(|(_, value)| value.n_bytes().unwrap_or(0)))?;
    }
    request.judge(n_rows)
}

impl Session for MongodbSession {
    type Protocol = Pairs;
    type Canceller = Uncancellable;

    async fn run(&mut self, request: &PairsRequest, _answer: &mut PairsAnswer) -> Result<u64, Failure> {
        if self.is_lost() {
            return Err(Failure::without_code(ErrorClass::Connect, "the connection is lost"));
        }
        let ended = self.ask(request).await;
        if let Err(failure) = &ended {
            self.is_lost |= matches!(failure.class, ErrorClass::Connect | ErrorClass::Protocol);
        }
        ended
    }

    async fn reset(&mut self) -> Result<(), Failure> {
        Ok(())
    }

    fn canceller(&self) -> Option<Uncancellable> {
        None
    }

    /// An answer that nobody waited for would be taken for that of the next request.
    fn is_lost(&self) -> bool {
        self.is_lost || self.wire.is_waiting
    }

    async fn close(self) {}
}
