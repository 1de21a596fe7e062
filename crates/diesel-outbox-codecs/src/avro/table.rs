//! The schemas that this process knows: of its own types, and of others by id.
//!
//! They are one for the process, because a [`Codec`](diesel_outbox::codec::Codec) has no state. A schema of a type never changes and
//! an id never means another schema, so nobody has to know who put them there.

use std::any::TypeId;
use std::collections::{HashMap, VecDeque};
use std::fmt;
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use apache_avro::writer::datum::GenericDatumWriter;
use apache_avro::{AvroSchema, Schema};

/// Schemas by id that are kept for each registry: more than a consumer meets versions, and a few megabytes at most. The oldest goes.
const FETCHED_MAX: usize = 1_000;

/// The schema of a type as its registry has it.
pub(super) struct OwnSchema {
    pub(super) id: u32,
    pub(super) schema: &'static Schema,
    pub(super) writer: GenericDatumWriter<'static>,
}

#[derive(Default)]
struct Table {
    /// By registry and type.
    own: HashMap<(TypeId, TypeId), Arc<OwnSchema>>,
    /// By registry.
    by_id: HashMap<TypeId, ById>,
    /// By type. Each is leaked, once: it is as constant as the type.
    of_types: HashMap<TypeId, &'static Schema>,
}

#[derive(Default)]
struct ById {
    schemas: HashMap<u32, Arc<Schema>>,
    oldest_first: VecDeque<u32>,
}

static TABLE: RwLock<Option<Table>> = RwLock::new(None);

fn read() -> RwLockReadGuard<'static, Option<Table>> {
    TABLE.read().unwrap_or_else(PoisonError::into_inner)
}

fn write() -> RwLockWriteGuard<'static, Option<Table>> {
    TABLE.write().unwrap_or_else(PoisonError::into_inner)
}

/// The schema of a type.
pub(super) fn schema_of<T: AvroSchema + 'static>() -> &'static Schema {
    let of = TypeId::of::<T>();
    if let Some(schema) = read().as_ref().and_then(|table| table.of_types.get(&of).copied()) {
        return schema;
    }
    // The application's code, so outside the lock.
    let schema = T::get_schema();
    write().get_or_insert_default().of_types.entry(of).or_insert_with(|| Box::leak(Box::new(schema)))
}

/// The schema of a type with its id; `None` until the registry was asked.
pub(super) fn own<R: 'static, T: 'static>() -> Option<Arc<OwnSchema>> {
    read().as_ref()?.own.get(&(TypeId::of::<R>(), TypeId::of::<T>())).cloned()
}

/// Adds the id of a type's schema. Returns the id that it has at another registry of the same name, which is not replaced: rows with
/// that one may exist.
pub(super) fn insert_own(registry: TypeId, of: TypeId, own: OwnSchema) -> Result<(), u32> {
    let mut table = write();
    let table = table.get_or_insert_default();
    match table.own.get(&(registry, of)) {
        Some(known) if known.id != own.id => Err(known.id),
        _ => {
            table.by_id.entry(registry).or_default().insert(own.id, Arc::new(own.schema.clone()));
            table.own.insert((registry, of), Arc::new(own));
            Ok(())
        }
    }
}

pub(super) fn by_id<R: 'static>(id: u32) -> Option<Arc<Schema>> {
    read().as_ref()?.by_id.get(&TypeId::of::<R>())?.schemas.get(&id).cloned()
}

/// Adds a schema of somebody else.
pub(super) fn insert_fetched<R: 'static>(id: u32, schema: Schema) {
    write().get_or_insert_default().by_id.entry(TypeId::of::<R>()).or_default().insert(id, Arc::new(schema));
}

impl ById {
    fn insert(&mut self, id: u32, schema: Arc<Schema>) {
        if self.schemas.insert(id, schema).is_none() {
            self.oldest_first.push_back(id);
        }
        if self.oldest_first.len() > FETCHED_MAX
            && let Some(oldest) = self.oldest_first.pop_front()
        {
            self.schemas.remove(&oldest);
        }
    }
}

impl fmt::Debug for OwnSchema {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OwnSchema").field("id", &self.id).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_schemas_by_id_are_bounded() {
        struct Bounded;
        let max = u32::try_from(FETCHED_MAX).expect("a small number");
        for id in 0..=max {
            insert_fetched::<Bounded>(id, Schema::Long);
            insert_fetched::<Bounded>(id, Schema::Long);
        }
        assert!(by_id::<Bounded>(0).is_none() && by_id::<Bounded>(1).is_some() && by_id::<Bounded>(max).is_some());
        assert_eq!(read().as_ref().expect("a table").by_id[&TypeId::of::<Bounded>()].schemas.len(), FETCHED_MAX);
    }

    #[test]
    fn registries_of_other_names_share_nothing() {
        struct One;
        struct Other;
        insert_fetched::<One>(7, Schema::Long);
        assert!(by_id::<One>(7).is_some() && by_id::<Other>(7).is_none());
    }
}
