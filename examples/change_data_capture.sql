-- Change data capture: the present and the former airlines of each aircraft, from events that
-- arrive in the wrong order.
--
-- Begins from the table `flights` (python -m examples.load). Everything it makes is in the
-- schema `cdc`; each run drops it first.

DROP SCHEMA IF EXISTS cdc CASCADE;
CREATE SCHEMA cdc;
USE cdc;

-- An event is a flight of an aircraft by an airline. A cancelled flight is used as a deletion.
CREATE VIEW departures AS
SELECT
    month, tailnum, carrier, timestampadd(MINUTE, minute, time_hour) AS departs,
    dep_time IS NULL AS cancelled
FROM default.flights
WHERE tailnum IS NOT NULL;

CREATE TABLE events (tailnum TEXT, carrier TEXT, departs TIMESTAMP, cancelled BOOL);

-- SCD type 1: the last event of each aircraft decides.
CREATE FLOW keep_operators AS AUTO CDC INTO operators FROM STREAM(events)
    KEYS (tailnum)
    APPLY AS DELETE WHEN cancelled
    SEQUENCE BY departs
    COLUMNS (tailnum, carrier)
    STORED AS SCD TYPE 1;

-- SCD type 2: a row for each period in which one airline flew the aircraft.
CREATE FLOW keep_history AS AUTO CDC INTO history FROM STREAM(events)
    KEYS (tailnum)
    APPLY AS DELETE WHEN cancelled
    SEQUENCE BY departs
    COLUMNS (tailnum, carrier)
    STORED AS SCD TYPE 2;

-- Summer first, spring last: late events are inserted in their place.
INSERT INTO events SELECT tailnum, carrier, departs, cancelled FROM departures WHERE month = 7;
SELECT * FROM history WHERE tailnum = 'N935AT';
INSERT INTO events SELECT tailnum, carrier, departs, cancelled FROM departures WHERE month = 9;
INSERT INTO events SELECT tailnum, carrier, departs, cancelled FROM departures WHERE month = 3;

SELECT count(*) AS aircraft FROM operators;
SELECT count(*) AS versions FROM history;
SELECT * FROM history WHERE tailnum = 'N935AT' ORDER BY __START_AT;

-- A flow is an ordinary task and a view over it.
SHOW CREATE CONTINUAL TASK keep_operators;
