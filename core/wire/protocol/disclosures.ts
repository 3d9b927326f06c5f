import { z } from 'zod'

const amount = z.int().min(0)

/** One entry of a device's ledger: an answer has one for each bridge or server that anything went to, else one in all. */
export const Disclosure = z.object({
  id: z.int().min(1),
  /** Number of the answer, which its entries share. */
  answer: z.int().min(1),
  /** Before the first bytes left. */
  at: z.iso.datetime(),
  /** 'interrupted': the agent was killed during the answer. Until the end, `rows` and `bytes` are upper bounds. */
  state: z.enum(['open', 'ended', 'interrupted']),
  /** 'counts': sums of tokens in telemetry; 'nothing': the answer was made here, and no telemetry is reported. */
  content: z.enum(['text', 'states', 'counts', 'nothing']),
  /** Null: the device alone. */
  way: z.enum(['server', 'bridge', 'sketches', 'slmServer', 'job', 'hat']).nullable(),
  /** Host and port; of `counts` all brokers. Null: none. */
  destination: z.string().nullable(),
  /** Null: an answer to a job of a bridge, or a measurement of its own. */
  mode: z.string().nullable(),
  /** What chose the mode: the client; `--mode`; the mode auto, which chose the way, too; a rule of the owner. */
  reason: z.enum(['client', 'default', 'auto', 'rule', 'job']),
  rule: z.string().nullable(),
  /** With text. */
  requests: amount,
  /** Of the prompt, and of the answer so far, in each request. */
  characters: amount,
  /** Of the answer that came from there. Null: not known. */
  tokens: amount.nullable(),
  /** Hidden states, one for each token. */
  rows: amount,
  /** Of requests or frames. */
  bytes: amount,
})
export type Disclosure = z.infer<typeof Disclosure>

/** Of GET /v1/disclosures. */
export const DisclosureList = z.object({
  /** Why the disk stores no entries now, null where it does; and the entries that are in memory alone, 1,000 at most. */
  recording: z.object({ failure: z.string().nullable(), unstored: amount }),
  disclosures: z.array(Disclosure),
})
export type DisclosureList = z.infer<typeof DisclosureList>

export const DisclosureQuery = z.object({
  since: z.iso.datetime().optional(),
  after: z.coerce.number<string>().int().min(0).default(0),
  limit: z.coerce.number<string>().int().min(1).max(1_000).default(100),
})
