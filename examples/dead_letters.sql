-- Dead letters: valid rows in one output, invalid rows with the reason in another.
--
-- Begins from the table `flights` (python -m examples.load). Everything it makes is in the
-- schema `letters`; each run drops it first.

DROP SCHEMA IF EXISTS letters CASCADE;
CREATE SCHEMA letters;
USE letters;

CREATE TABLE feed (
    month INT, day INT, carrier TEXT, flight INT, origin TEXT, tailnum TEXT, dep_delay INT
);

-- One task, two outputs: every row of a commit is written to one of them. Both outputs change
-- at the same T, so a query over both never misses a row or counts it twice.
CREATE CONTINUAL TASK route OUTPUTS (
    clean (month INT, day INT, carrier TEXT, flight INT, origin TEXT, tailnum TEXT, dep_delay INT),
    dead_letters (month INT, day INT, carrier TEXT, flight INT, origin TEXT, reason TEXT)
) ON INPUT feed AS (
    -- A flight that is inserted again is checked again.
    DELETE FROM dead_letters AS d WHERE EXISTS (
        SELECT 1 FROM feed AS f
        WHERE f.month = d.month AND f.day = d.day AND f.carrier = d.carrier
            AND f.flight = d.flight AND f.origin = d.origin
    );
    INSERT INTO clean
    SELECT * FROM feed WHERE tailnum IS NOT NULL AND dep_delay IS NOT NULL;
    INSERT INTO dead_letters
    SELECT
        month, day, carrier, flight, origin,
        CASE WHEN tailnum IS NULL THEN 'no aircraft' ELSE 'never left' END
    FROM feed
    WHERE tailnum IS NULL OR dep_delay IS NULL;
);

-- A view of both: each flight counts once, at every T.
CREATE MATERIALIZED VIEW routed AS
SELECT month, state, count(*) AS flights
FROM (
    SELECT month, 'clean' AS state FROM clean
    UNION ALL
    SELECT month, reason FROM dead_letters
)
GROUP BY month, state;

INSERT INTO feed
SELECT month, day, carrier, flight, origin, tailnum, dep_delay FROM default.flights WHERE month = 1;

INSERT INTO feed
SELECT month, day, carrier, flight, origin, tailnum, dep_delay FROM default.flights WHERE month = 2;

SELECT * FROM routed ORDER BY month, state;

-- The missing values of the first of January are found, and those flights are inserted again: at
-- one T the dead letters disappear and the flights appear.
INSERT INTO feed
SELECT month, day, carrier, flight, origin, 'looked up', 0
FROM dead_letters
WHERE month = 1 AND day = 1;

SELECT * FROM routed ORDER BY month, state;
SHOW TASK OUTPUTS;
