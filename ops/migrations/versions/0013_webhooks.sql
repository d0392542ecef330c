-- The log of deliveries, which is also the queue that they are sent from. A message holds ids, words of a fixed set,
-- times and counts (handlers/webhooks/payload.py); whoever may see it is decided as for every table with a tenant.
create table lethelog.webhook_deliveries (
    tenant       uuid        not null,
    -- What the receiver gets as "webhook-id". Made from webhook and event, so that one event is one delivery.
    id           uuid        not null,
    webhook      uuid        not null,
    position     bigint      not null,
    event        text        not null,
    body         text        not null,
    status       text        not null default 'pending'
        check (status in ('pending', 'delivered', 'failed', 'dropped')),
    queued_at    timestamptz not null,
    -- When it is sent next; null once it is finished.
    next_attempt timestamptz check ((next_attempt is null) = (status <> 'pending')),
    -- Until when one process has it in hand; another takes it over afterwards.
    taken_until  timestamptz,
    -- Failed attempts since it was queued last.
    failures     int         not null default 0,
    finished_at  timestamptz check ((finished_at is null) = (status = 'pending')),
    -- The last attempts, oldest first: [{at, outcome, milliseconds}].
    attempts     jsonb       not null default '[]',
    primary key (tenant, id)
);
create index webhook_deliveries_due on lethelog.webhook_deliveries (next_attempt, tenant, webhook)
where status = 'pending';
create index webhook_deliveries_of_one on lethelog.webhook_deliveries (tenant, webhook, position desc, id desc);
create index webhook_deliveries_finished on lethelog.webhook_deliveries (finished_at) where status <> 'pending';

create table lethelog.webhook_health (
    tenant          uuid not null,
    webhook         uuid not null,
    -- The first failed attempt since the last success.
    failing_since   timestamptz,
    last_success    timestamptz,
    last_attempt    timestamptz,
    last_outcome    text,
    delivered       bigint not null default 0,
    failed_attempts bigint not null default 0,
    primary key (tenant, webhook)
);
-- Doctor looks for these.
create index webhook_health_failing on lethelog.webhook_health (failing_since) where failing_since is not null;

-- A door queues what is to be sent, also again, and forgets failures where its tenant says that they are mended. What
-- was sent and how that went it cannot change.
grant select on lethelog.webhook_deliveries, lethelog.webhook_health to lethelog_door;
grant insert (tenant, id, webhook, position, event, body, queued_at, next_attempt) on lethelog.webhook_deliveries
to lethelog_door;
grant update (status, queued_at, next_attempt, taken_until, failures, finished_at) on lethelog.webhook_deliveries
to lethelog_door;
grant update (failing_since) on lethelog.webhook_health to lethelog_door;
grant select, insert, update, delete on lethelog.webhook_deliveries, lethelog.webhook_health to lethelog_worker;
