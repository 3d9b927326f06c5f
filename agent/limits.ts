import { z } from 'zod'
import { upstreamLimitFields } from '../core/answer/upstream/limit-table.ts'
import { nonNegative, positive, whole } from '../core/kit/base/setting-kinds.ts'

const waiting = 'up to 1,024 more wait'
const serverDefaults = {
  AnswerBytes: 2 ** 20,
  FirstTokenS: 100,
  IdleS: 60,
  Requests: 16,
  Retries: 1,
  TotalS: 600,
}

/**
 * What protects the agent from the clients of its API and from its bridges. Each limit is set by
 * `brim agent run --limit <name>=<number>`. docs/limits.md is generated from this table.
 */
export const AgentLimits = z.strictObject({
  apiAnswers: whole(1, 128).describe(
    "answers to one request to the agent's API, prompts times `n`; a request for more gets status 400",
  ),
  apiBodyBytes: whole(1_024, 8 * 2 ** 20).describe(
    "size of a request to the agent's API, in bytes; a larger one gets status 413",
  ),
  apiConnections: whole(1, 256).describe(
    "connections to the agent's API; beyond it the one that has waited longest for its first or next request is closed, or the new one",
  ),
  apiPromptBytes: whole(1_024, 2 ** 20).describe(
    'size of a prompt, or of the messages of a conversation as JSON, in bytes; a larger one gets status 400, as does one that the context of the model cannot hold',
  ),
  budgetWaitS: positive(60).describe(
    'seconds that a request waits for the budget with `--when-exhausted wait`; then it gets status 429',
  ),
  expansionKvBytes: whole(2 ** 20, 2 ** 29).describe(
    'memory for the KV of sentences that a small model expands at a time, in bytes, and never more than half of what is free; the others wait',
  ),

  probeMemoryBytes: whole(2 ** 28, 2 ** 31).describe(
    'memory for the self-test of a bundle that is being installed, in bytes, in addition to four times the size of its files; one that needs more is not installed',
  ),
  probeTimeoutS: whole(1, 600).describe(
    'time for the self-test of a bundle that is being installed, in seconds; one that needs longer is not installed',
  ),

  ...upstreamLimitFields(
    'server',
    { ...serverDefaults, FirstTokenS: 60, IdleS: 20 },
    { server: 'the server of `--server`', failure: 'that side fails', waiting },
  ),

  healthBridgeS: positive(120).describe(
    'seconds until a bridge must be connected after a job has changed the device; then the change is undone',
  ),
  healthProbeS: positive(60).describe(
    'seconds in which a changed device must answer the probe of the job; then the change is undone',
  ),
  healthSoakS: nonNegative(120).describe(
    'seconds with a bridge, after the probe, before a change that needed another start of the agent is kept',
  ),

  hatAnswers: whole(1, 32).describe('private answers at once: each has KV memory here, and a session at the bridge'),
  hatWaiting: whole(0, 256).describe(
    'private answers that wait for others to end, in order of arrival; a further request gets status 429',
  ),
  slmAnswers: whole(1, 1).describe(
    'answers that the small model writes at once; while it is busy, requests that may use a server go there, and the others wait',
  ),
  slmBytes: whole(1, 2 ** 32).describe(
    'memory for the weights of open small models, in bytes; to open another, the one unused longest is closed, and a larger model is not used at all',
  ),
  slmReserveBytes: whole(0, 2 ** 28).describe(
    'free memory that must remain after a model is opened beside another, in bytes; else the other is closed first',
  ),

  ...upstreamLimitFields('slmServer', serverDefaults, {
    server: 'the server of `--slm-server`',
    failure: 'the answer fails',
    waiting,
  }),
  slmWaiting: whole(0, 64).describe(
    'answers that wait for the small model, in order of arrival; a further request gets status 429',
  ),
})
export type AgentLimits = z.infer<typeof AgentLimits>
