-- Deduplication by id: every flight once, from deliveries that overlap or are repeated.
--
-- A flight's id is its scheduled hour, its airline and its number. The first copy is kept.
-- Begins from the table `flights` (python -m examples.load). Everything it makes is in the
-- schema `dedup`; each run drops it first.

DROP SCHEMA IF EXISTS dedup CASCADE;
CREATE SCHEMA dedup;
USE dedup;

CREATE VIEW scheduled AS
SELECT month, day, time_hour, carrier, flight, origin, dest FROM default.flights;

CREATE TABLE deliveries (
    delivery INT, time_hour TIMESTAMP, carrier TEXT, flight INT, origin TEXT, dest TEXT
);

-- Two kinds of copies are left out: copies of a flight of an earlier commit (NOT EXISTS: the
-- task reads its own output), and copies within one commit (GROUP BY). If these differ, min()
-- takes the same one in every run; row_number() over ties would not.
CREATE CONTINUAL TASK flights_once (
    time_hour TIMESTAMP, carrier TEXT, flight INT, delivery INT, origin TEXT, dest TEXT
) ON INPUT deliveries AS (
    INSERT INTO flights_once
    SELECT time_hour, carrier, flight, copy.delivery, copy.origin, copy.dest
    FROM (
        SELECT time_hour, carrier, flight, min(struct(delivery, origin, dest)) AS copy
        FROM deliveries
        GROUP BY time_hour, carrier, flight
    ) AS d
    WHERE NOT EXISTS (
        SELECT 1 FROM flights_once AS o
        WHERE o.time_hour = d.time_hour AND o.carrier = d.carrier AND o.flight = d.flight
    );
);

-- Every delivery contains the last two days.
INSERT INTO deliveries
SELECT 1, time_hour, carrier, flight, origin, dest FROM scheduled WHERE month = 1 AND day = 1;

INSERT INTO deliveries
SELECT 2, time_hour, carrier, flight, origin, dest FROM scheduled
WHERE month = 1 AND day IN (1, 2);

-- The sender repeats the second delivery: a commit that adds nothing to the output.
INSERT INTO deliveries
SELECT 2, time_hour, carrier, flight, origin, dest FROM scheduled
WHERE month = 1 AND day IN (1, 2);

-- The third delivery contains its newest day twice.
INSERT INTO deliveries
SELECT 3, time_hour, carrier, flight, origin, dest FROM scheduled
WHERE month = 1 AND day IN (2, 3)
UNION ALL
SELECT 3, time_hour, carrier, flight, origin, dest FROM scheduled WHERE month = 1 AND day = 3;

SELECT delivery, count(*) AS delivered FROM deliveries GROUP BY delivery ORDER BY delivery;
SELECT delivery, count(*) AS kept FROM flights_once GROUP BY delivery ORDER BY delivery;
