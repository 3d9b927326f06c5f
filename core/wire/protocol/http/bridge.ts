import { z } from 'zod'
import { ShownComputing } from '../computing.ts'
import { SharedDatabase } from './devices.ts'
import { del, get, type Operations, post } from './operation.ts'
import { ServedNow } from './served-now.ts'

const count = z.int().min(0)
const ms = z.number().min(0)

export const Health = z.object({
  ok: z.literal(true),
  version: z.string(),
  modelId: z.string().nullable().describe('Of its first bundle; null where the bridge serves none.'),
  modelIds: z.array(z.string()).default([]).describe('Of all bundles that it serves.'),
  computing: z.array(ShownComputing).default([]).describe('What computes each of them.'),
  sessions: count.describe('Open HAT sessions.'),
  kvBytes: count.describe('KV memory of open sessions.'),
  keptKvBytes: count.describe('KV memory of the prefix cache.'),
  uptimeS: count,
  pipeline: z.int().min(1).describe('Stages of the middle submodel: always 1.'),
  serving: z.object({
    steps: count,
    items: count,
    tokens: count,
    batches: z.array(count).describe('Steps by number of streams served.'),
    splits: count.describe('Failed steps that were repeated stream by stream.'),
    failedItems: count,
    queueMs: ms.describe('Moving average.'),
    computeMs: ms.describe('Moving average.'),
  }),
  jobs: z.object({
    dispatchMs: z
      .object({ p50: ms.nullable(), p99: ms.nullable(), count })
      .describe('From sending a job to storing its acceptance; the latest 10,000 dispatches.'),
  }),
})
export type Health = z.infer<typeof Health>

/** One step of the serving loop. */
export const LoggedStep = z.object({
  index: count.describe('Number of earlier steps since the start of the bridge.'),
  startMs: ms.describe('Since the start of the bridge.'),
  items: count.describe('Streams served.'),
  tokens: count,
  computeMs: ms,
  predictedMs: ms.nullable().describe('Predicted duration of a step of this size; null for the first step.'),
})
export type LoggedStep = z.infer<typeof LoggedStep>

export const bridgeOperations = {
  health: get('/health', 'open', 'State and load of the bridge', { response: Health }),
  steps: get('/v1/steps', 'read', 'Latest steps of the serving loop, oldest first', {
    response: z.object({ steps: z.array(LoggedStep) }),
  }),
  served: get(
    '/v1/served',
    'operate',
    'HAT sessions and answers that the bridge serves now, figures alone; as a stream, again each second in which they change',
    { response: ServedNow, event: ServedNow },
  ),
  metrics: get('/metrics', 'read', "Metrics in Prometheus' text format", {
    contentType: 'text/plain; version=0.0.4; charset=utf-8',
  }),
  end: post('/v1/end', 'administer', 'Ends this bridge as SIGTERM does, for a command that moves its databases', {
    response: z.object({ ending: z.literal(true) }),
  }),
  nodes: get('/v1/nodes', 'read', 'The processes that are this bridge together', { response: SharedDatabase }),
  drain: post(
    '/v1/nodes/:node/drain',
    'operate',
    'Sends the devices of a process to the others; a primary gives its lease away',
    {
      response: SharedDatabase,
    },
  ),
  undrain: del('/v1/nodes/:node/drain', 'operate', 'Lets a process that was drained serve devices again', {
    response: SharedDatabase,
  }),
} satisfies Operations
