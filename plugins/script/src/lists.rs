//! Functions of lists and maps whose answer hangs on a comparison or on a closure.
//!
//! In Rhai's packages a closure that answers with a text or a number counts as `false`, and one that fails while a list is sorted as
//! anything. Here both are an error of the program. No answer, as of an `if` without `else`, or an absent value, stays `false`.

use std::cmp::Ordering;

use rhai::{
    Array, Dynamic, Engine, FnPtr, FuncRegistration, INT, ImmutableString, Map, NativeCallContext,
};

use crate::strict::{self, Answer};

/// Asks a closure about an element: it takes it as its parameter or as `this`, and the number or key as well if it wants to.
fn asked<const N: usize, const E: usize>(
    (name, context, closure): (&str, &NativeCallContext<'_>, &FnPtr),
    element: &mut Dynamic,
    (before, behind): ([Dynamic; N], [Dynamic; E]),
) -> Answer<bool> {
    let answer =
        closure.call_raw_with_extra_args(name, context, Some(element), before, behind, Some(N))?;
    truth(name, &answer)
}

fn truth(name: &str, answer: &Dynamic) -> Answer<bool> {
    if answer.is_unit() {
        return Ok(false);
    }
    answer.as_bool().map_err(|found| {
        let advice = "the closure is to answer true or false, as in `|x| x == 1`";
        format!("{name}: {advice}, not with a value of type {found}").into()
    })
}

/// The first element, from a position on, about which a closure gives this answer.
fn first(
    call: (&str, &NativeCallContext<'_>, &FnPtr),
    list: &mut Array,
    from: INT,
    answer: bool,
) -> Answer<Option<usize>> {
    let from = start(list, from);
    for (at, element) in list.iter_mut().enumerate().skip(from) {
        if asked(call, element, ([], [number(at)]))? == answer {
            return Ok(Some(at));
        }
    }
    Ok(None)
}

/// Negative positions count from the end, as everywhere in Rhai.
fn start(list: &Array, from: INT) -> usize {
    let distance = usize::try_from(from.unsigned_abs()).unwrap_or(usize::MAX);
    match from {
        0.. => distance,
        _ => list.len().saturating_sub(distance),
    }
}

fn number(at: usize) -> Dynamic {
    INT::try_from(at).unwrap_or(INT::MAX).into()
}

/// The position as programs see it: -1 is nowhere.
fn shown(at: Option<usize>) -> INT {
    at.and_then(|at| INT::try_from(at).ok()).unwrap_or(-1)
}

/// The elements about which a closure says yes, and the others.
fn parted(
    call: (&str, &NativeCallContext<'_>, &FnPtr),
    list: &mut Array,
) -> Answer<(Array, Array)> {
    let (mut chosen, mut others) = (Array::new(), Array::new());
    for (at, element) in list.iter_mut().enumerate() {
        let is_chosen = asked(call, element, ([], [number(at)]))?;
        if is_chosen { &mut chosen } else { &mut others }.push(element.clone());
    }
    Ok((chosen, others))
}

fn parted_map(call: (&str, &NativeCallContext<'_>, &FnPtr), map: &mut Map) -> Answer<(Map, Map)> {
    let (mut chosen, mut others) = (Map::new(), Map::new());
    for (key, value) in map.iter_mut() {
        let is_chosen = asked(call, value, ([key.clone().into()], []))?;
        if is_chosen { &mut chosen } else { &mut others }.insert(key.clone(), value.clone());
    }
    Ok((chosen, others))
}

/// A stable order, found by halving: `sort_by` of the standard library cannot fail.
fn sorted(list: &Array, order: impl Fn(&Dynamic, &Dynamic) -> Answer<Ordering>) -> Answer<Array> {
    let mut sorted = Array::with_capacity(list.len());
    for element in list {
        let (mut low, mut high) = (0_usize, sorted.len());
        while let Some(other) = sorted.get(low.midpoint(high)).filter(|_| low < high) {
            match order(element, other)? {
                Ordering::Less => high = low.midpoint(high),
                _ => low = low.midpoint(high) + 1,
            }
        }
        sorted.insert(low, element.clone());
    }
    Ok(sorted)
}

/// What a closure says about the order of two elements: a number as of `cmp`, or whether the first one comes first.
fn said(
    (name, context, closure): (&str, &NativeCallContext<'_>, &FnPtr),
    one: &Dynamic,
    other: &Dynamic,
) -> Answer<Ordering> {
    let answer = closure.call_raw(context, None, [one.clone(), other.clone()])?;
    if let Ok(number) = answer.as_int() {
        return Ok(number.cmp(&0));
    }
    match truth(name, &answer)? {
        true => Ok(Ordering::Less),
        false => Ok(Ordering::Greater),
    }
}

pub(crate) fn register(engine: &mut Engine) {
    register_searches(engine);
    register_choices(engine);
    register_orders(engine);
    refuse_names(engine);
}

/// Rhai has these also with the name of a function in place of the function, and swallows its errors there.
fn refuse_names(engine: &mut Engine) {
    let names = [
        "some", "all", "find", "filter", "map", "retain", "drain", "dedup", "sort",
    ];
    for name in names {
        engine.register_fn(name, move |_: &mut Array, function: ImmutableString| {
            let advice = format!("{name}: write `|x| {function}(x)` in place of a function's name");
            Answer::<Dynamic>::Err(advice.into())
        });
    }
}

fn register_searches(engine: &mut Engine) {
    type Context<'c> = NativeCallContext<'c>;
    engine
        // Also the operator `in`.
        .register_fn("contains", |list: &mut Array, value: Dynamic| {
            strict::position("in", list, &value, 0).map(|at| at.is_some())
        })
        .register_fn("index_of", |list: &mut Array, value: Dynamic| {
            strict::position("index_of", list, &value, 0).map(shown)
        })
        // In Rhai's package a text is the name of a function to ask.
        .register_fn("index_of", |list: &mut Array, text: ImmutableString| {
            strict::position("index_of", list, &text.into(), 0).map(shown)
        })
        .register_fn(
            "index_of",
            |list: &mut Array, text: ImmutableString, from: INT| {
                strict::position("index_of", list, &text.into(), start(list, from)).map(shown)
            },
        )
        .register_fn("index_of", |list: &mut Array, value: Dynamic, from: INT| {
            strict::position("index_of", list, &value, start(list, from)).map(shown)
        })
        .register_fn("index_of", |ctx: Context, list: &mut Array, ask: FnPtr| {
            first(("index_of", &ctx, &ask), list, 0, true).map(shown)
        })
        .register_fn(
            "index_of",
            |ctx: Context, list: &mut Array, ask: FnPtr, from: INT| {
                first(("index_of", &ctx, &ask), list, from, true).map(shown)
            },
        )
        .register_fn("find", |ctx: Context, list: &mut Array, ask: FnPtr| {
            let at = first(("find", &ctx, &ask), list, 0, true)?;
            Answer::Ok(at.and_then(|at| list.get(at).cloned()).unwrap_or_default())
        })
        .register_fn(
            "find",
            |ctx: Context, list: &mut Array, ask: FnPtr, from: INT| {
                let at = first(("find", &ctx, &ask), list, from, true)?;
                Answer::Ok(at.and_then(|at| list.get(at).cloned()).unwrap_or_default())
            },
        )
        .register_fn("some", |ctx: Context, list: &mut Array, ask: FnPtr| {
            first(("some", &ctx, &ask), list, 0, true).map(|at| at.is_some())
        })
        .register_fn("all", |ctx: Context, list: &mut Array, ask: FnPtr| {
            first(("all", &ctx, &ask), list, 0, false).map(|at| at.is_none())
        });
}

fn register_choices(engine: &mut Engine) {
    type Context<'c> = NativeCallContext<'c>;
    engine
        .register_fn("filter", |ctx: Context, list: &mut Array, ask: FnPtr| {
            parted(("filter", &ctx, &ask), list).map(|(chosen, _)| chosen)
        })
        .register_fn("filter", |ctx: Context, map: &mut Map, ask: FnPtr| {
            parted_map(("filter", &ctx, &ask), map).map(|(chosen, _)| chosen)
        });
    in_place("retain").register_into_engine(
        engine,
        |ctx: Context, list: &mut Array, ask: FnPtr| {
            let (chosen, others) = parted(("retain", &ctx, &ask), list)?;
            *list = chosen;
            Answer::Ok(others)
        },
    );
    in_place("drain").register_into_engine(engine, |ctx: Context, list: &mut Array, ask: FnPtr| {
        let (chosen, others) = parted(("drain", &ctx, &ask), list)?;
        *list = others;
        Answer::Ok(chosen)
    });
    in_place("retain").register_into_engine(engine, |ctx: Context, map: &mut Map, ask: FnPtr| {
        let (chosen, others) = parted_map(("retain", &ctx, &ask), map)?;
        *map = chosen;
        Answer::Ok(others)
    });
    in_place("drain").register_into_engine(engine, |ctx: Context, map: &mut Map, ask: FnPtr| {
        let (chosen, others) = parted_map(("drain", &ctx, &ask), map)?;
        *map = others;
        Answer::Ok(chosen)
    });
}

/// A function that changes the list or map that it is called on, so no constant has it.
fn in_place(name: &str) -> FuncRegistration {
    FuncRegistration::new(name).with_purity(false)
}

fn register_orders(engine: &mut Engine) {
    type Context<'c> = NativeCallContext<'c>;
    for name in ["sort", "sort_by"] {
        in_place(name).register_into_engine(
            engine,
            move |ctx: Context, list: &mut Array, ask: FnPtr| {
                *list = sorted(list, |one, other| said((name, &ctx, &ask), one, other))?;
                Answer::Ok(())
            },
        );
    }
    for name in ["order", "order_by"] {
        engine.register_fn(name, move |ctx: Context, list: &mut Array, ask: FnPtr| {
            sorted(list, |one, other| said((name, &ctx, &ask), one, other))
        });
    }
    in_place("sort").register_into_engine(engine, |list: &mut Array| {
        *list = sorted(list, |one, other| strict::order("sort", one, other))?;
        Answer::Ok(())
    });
    in_place("sort_desc").register_into_engine(engine, |list: &mut Array| {
        *list = sorted(list, |one, other| strict::order("sort_desc", other, one))?;
        Answer::Ok(())
    });
    engine
        .register_fn("order", |list: &mut Array| {
            sorted(list, |one, other| strict::order("order", one, other))
        })
        .register_fn("order_desc", |list: &mut Array| {
            sorted(list, |one, other| strict::order("order_desc", other, one))
        });
    in_place("dedup").register_into_engine(engine, |ctx: Context, list: &mut Array, ask: FnPtr| {
        let mut kept = Array::new();
        for element in list.iter() {
            let is_repeated = match kept.last() {
                Some(last) => {
                    let both = [last.clone(), element.clone()];
                    truth("dedup", &ask.call_raw(&ctx, None, both)?)?
                }
                None => false,
            };
            if !is_repeated {
                kept.push(element.clone());
            }
        }
        *list = kept;
        Answer::Ok(())
    });
}
