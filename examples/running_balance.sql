-- Running balance: a logbook of all flights, each with the aircraft's miles so far.
--
-- The task reads its own output: each entry adds to the last entry of its aircraft.
-- Begins from the table `flights` (python -m examples.load). Everything it makes is in the
-- schema `balance`; each run drops it first.

DROP SCHEMA IF EXISTS balance CASCADE;
CREATE SCHEMA balance;
USE balance;

CREATE VIEW departures AS
SELECT
    month, day, tailnum, timestampadd(MINUTE, minute, time_hour) AS departs, flight, distance
FROM default.flights
WHERE dep_time IS NOT NULL;

CREATE TABLE feed (tailnum TEXT, departs TIMESTAMP, flight INT, miles INT8);

-- In the body `logbook` has the rows before this commit. An aircraft has several flights a day:
-- the window adds these up, the join adds the stored miles. `entry` numbers the rows of an
-- aircraft, to find the last one.
CREATE CONTINUAL TASK logbook (
    tailnum TEXT, entry INT8, departs TIMESTAMP, flight INT, miles INT8, total INT8
) ON INPUT feed AS (
    INSERT INTO logbook
    SELECT
        f.tailnum,
        coalesce(b.entry, 0)
        + row_number() OVER (PARTITION BY f.tailnum ORDER BY f.departs, f.flight),
        f.departs, f.flight, f.miles,
        coalesce(b.total, 0)
        + sum(f.miles) OVER (PARTITION BY f.tailnum ORDER BY f.departs, f.flight)
    FROM feed AS f
    LEFT JOIN (
        SELECT tailnum, max(entry) AS entry, max_by(total, entry) AS total
        FROM logbook
        WHERE tailnum IN (SELECT tailnum FROM feed)
        GROUP BY tailnum
    ) AS b ON f.tailnum = b.tailnum;
);

INSERT INTO feed
SELECT tailnum, departs, flight, distance FROM departures WHERE month = 1 AND day = 1;
INSERT INTO feed
SELECT tailnum, departs, flight, distance FROM departures WHERE month = 1 AND day = 2;
INSERT INTO feed
SELECT tailnum, departs, flight, distance FROM departures WHERE month = 1 AND day = 3;

SELECT entry, departs, flight, miles, total FROM logbook WHERE tailnum = 'N14542' ORDER BY entry;

-- Its first flight turned back, as is learnt later. Entries are never changed, as in any ledger:
-- a counter-entry subtracts the miles.
INSERT INTO feed
SELECT tailnum, departs, flight, -miles FROM logbook WHERE tailnum = 'N14542' AND entry = 1;

SELECT entry, departs, flight, miles, total FROM logbook WHERE tailnum = 'N14542' ORDER BY entry;
