import { z } from 'zod'
import { openEnum } from './open-enum.ts'

const count = z.int().min(0)
const figure = z.number().min(0)

const stream = {
  modelId: z.string(),
  state: openEnum(['waiting', 'running', 'preempted', 'idle']).describe(
    '`waiting`: it has had no memory yet. `running`: its KV is in the memory, and tokens of it wait for a step or are in one; `idle`: none do. `preempted`: its KV is not in the memory, or on its way from there or back.',
  ),
  contextTokens: count,
  unreadTokens: figure.nullable().describe('Generated, and not read yet at `tokensPerS`; null: the reader is unknown.'),
  tokensPerS: figure.nullable().describe('Rate of its reader.'),
  preemptions: count,
  resumptions: count,
  fastKvBytes: count.describe('In the memory.'),
  slowKvBytes: count.describe('Of rows that the slow tier holds; they may be in the memory, too.'),
}

export const HatSession = z.object({
  session: z.string().describe('As in logs.'),
  device: z.string(),
  ...stream,
  rounds: count,
  drafted: count.describe('In rounds that another one has followed: only then the bridge knows what was accepted.'),
  accepted: count,
  bytesUp: count.describe('Of frames of the device.'),
  bytesDown: count,
  rttMs: figure.nullable().describe('Of the link, measured every 15 s; null: not yet.'),
})
export type HatSession = z.infer<typeof HatSession>

export const ServedAnswer = z.object({
  client: z.string().describe('Beginning of the hash of the key or device that asks: the same in all its answers.'),
  ...stream,
  generatedTokens: count,
})
export type ServedAnswer = z.infer<typeof ServedAnswer>

export const ServedNow = z.object({
  sessions: z.array(HatSession).describe('Those that began first, at most 64.'),
  moreSessions: count.describe('Left out: those that began last.'),
  answers: z
    .array(ServedAnswer)
    .describe('Answers of the own models that wait or are generated; of each model those that began first, at most 64 together.'),
  moreAnswers: count.describe('Left out.'),
})
export type ServedNow = z.infer<typeof ServedNow>
