//! Metrics, each declared in one row: its field, type, name, help and start.
//!
//! [`metrics!`] makes a struct of the rows, and the function that registers them. [`By`] is a metric with labels, whose names stand once.
//! [`Scraped`] counts at each scrape what is in a value that comes and goes, such as the caches of a controller.

mod by;
mod scraped;

#[doc(hidden)]
pub use prometheus_client::registry::{Registry, Unit};

pub use self::by::{By, Counted, Histograms, Values, histogram};
pub use self::scraped::{Scraped, Shown, gauges};

/// Makes a struct of metrics, and its function `register`.
///
/// A row is `field: Type = "name", "help";`, with the unit after the name, and the metric to start with after the help if it is not the
/// default. Without a name it is a field of any type. The fields in parentheses are what `register` is given.
#[macro_export]
macro_rules! metrics {
    (
        $(#[$attribute:meta])*
        $visibility:vis struct $name:ident $(($($(#[$given_attribute:meta])* $given_visibility:vis $given:ident: $given_type:ty),+ $(,)?))? {
            $(
                $(#[$row_attribute:meta])*
                $field_visibility:vis $field:ident: $type:ty $(= $metric:literal $($unit:ident)?, $help:literal $(, $start:expr)?)?;
            )+
        }
    ) => {
        $(#[$attribute])*
        #[derive(Clone)]
        $visibility struct $name {
            $($($(#[$given_attribute])* $given_visibility $given: $given_type,)+)?
            $($(#[$row_attribute])* $field_visibility $field: $type,)+
        }

        impl $name {
            /// Registers all of them. Call it once: a second set would be exported beside the first.
            $visibility fn register(registry: &mut $crate::Registry, $($($given: $given_type),+)?) -> Self {
                $(
                    let $field = $crate::metrics!(@start $type $($(, $start)?)?);
                    $($crate::metrics!(@register registry, $metric $($unit)?, $help, $field);)?
                )+
                Self { $($($given,)+)? $($field),+ }
            }
        }
    };
    (@start $type:ty) => { <$type>::default() };
    (@start $type:ty, $start:expr) => {{ let start: $type = $start; start }};
    (@register $registry:ident, $metric:literal, $help:literal, $field:ident) => {
        $registry.register($metric, $help, $field.clone());
    };
    (@register $registry:ident, $metric:literal $unit:ident, $help:literal, $field:ident) => {
        $registry.register_with_unit($metric, $help, $crate::Unit::$unit, $field.clone());
    };
}

#[cfg(test)]
mod tests;
