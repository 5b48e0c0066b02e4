//! Times in UTC. Nothing here needs a server.

/// A point in time, taken apart. Not done by the server's functions, which ask for the session's time zone.
pub struct Utc {
    pub year: i64,
    pub month: i64,
    pub day: i64,
    pub hour: i64,
    pub minute: i64,
    pub second: i64,
    pub microsecond: i64,
}

impl Utc {
    /// Of microseconds since 2000; of the Gregorian calendar, which repeats itself every 400 years of 146,097 days.
    pub fn of(time: i64) -> Self {
        const SECOND: i64 = 1_000_000;
        const DAY: i64 = 86_400 * SECOND;
        let (days, time) = (time.div_euclid(DAY), time.rem_euclid(DAY));
        // counted from a 1 March, so that the leap day is a year's last
        let days = days + 730_425;
        let (era, day) = (days.div_euclid(146_097), days.rem_euclid(146_097));
        let year = (day - day / 1_460 + day / 36_524 - day / 146_096) / 365;
        let day = day - (365 * year + year / 4 - year / 100);
        let month = (5 * day + 2) / 153;
        let january_or_february = month >= 10;
        Self {
            year: 400 * era + year + i64::from(january_or_february),
            month: if january_or_february { month - 9 } else { month + 3 },
            day: day - (153 * month + 2) / 5 + 1,
            hour: time / (3_600 * SECOND),
            minute: time / (60 * SECOND) % 60,
            second: time / SECOND % 60,
            microsecond: time % SECOND,
        }
    }
}
