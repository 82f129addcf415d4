{{ config(materialized='continual_task') }}

(id INT NOT NULL, region STRING, status STRING, amount INT, updated_at TIMESTAMP)
ON INPUT {{ source('shop', 'raw_orders') }} arrived AS (
    MERGE INTO {{ this }} AS o
    USING (
        SELECT id, max(struct(updated_at, region, status, amount)) AS new FROM arrived GROUP BY id
    ) AS r
    ON o.id = r.id
    WHEN MATCHED AND r.new.updated_at >= o.updated_at THEN UPDATE SET
        region = r.new.region, status = r.new.status, amount = r.new.amount,
        updated_at = r.new.updated_at
    WHEN NOT MATCHED THEN INSERT (id, region, status, amount, updated_at)
        VALUES (r.id, r.new.region, r.new.status, r.new.amount, r.new.updated_at);
)
