import type { EndpointFigures } from '../../core/answer/endpoint/figures.ts'
import type { Slots } from '../../core/answer/upstream/slots.ts'
import type { Dims } from '../../core/model/bundle/manifest.ts'
import type { Drafter, TreeDrafter } from '../../core/model/draft/drafter.ts'
import type { RowConstraint } from '../../core/model/draft/row-constraint.ts'
import type { Part } from '../../core/model/engine/contract.ts'
import type { TokenLogprobs } from '../../core/model/engine/logprobs.ts'
import type { Sampling } from '../../core/model/engine/sampler.ts'
import type { SharedHead } from '../../core/model/engine/shared-head.ts'
import type { TokenConstraint } from '../../core/model/grammar/grammar.ts'
import type { DeviceSpeed } from '../../core/policy/hat/device-speed.ts'
import type { HatRules } from '../../core/policy/hat/hat-steps.ts'
import type { Recording } from '../../core/policy/recording.ts'
import type { ShownComputing } from '../../core/wire/protocol/computing.ts'
import type { UncodedWire } from '../../core/wire/protocol/frame.ts'
import type { StateCoders } from '../../core/wire/protocol/row-coder.ts'
import type { LinkSession, LinkSessionOptions } from '../link/link-session.ts'
import type { PrefixMemory } from './prefix-memory.ts'
import type { ReopenOptions } from './reopen.ts'

export interface HatOptions extends ReopenOptions, Pick<HatRules, 'prefill' | 'threshold' | 'draftLimit' | 'draftAhead'> {
  /** Called when an answer begins, which it may refuse. @returns to be called at its end */
  readonly begin?: (() => () => void) | undefined
  /** Bounds the answers at once: each has KV on the device, and a session at the bridge. Undefined: nothing does. */
  readonly slots?: Pick<Slots, 'take'> | undefined
  /** Opens a session, resuming a cached prefix where the options name one. */
  open(signal: AbortSignal, session?: LinkSessionOptions): Promise<LinkSession>
  /** How hidden states travel up, where they are not coded; as int8 the answer may differ from the reference. */
  readonly wire: UncodedWire
  /** As LinkSessionOptions. */
  readonly coders?: StateCoders | undefined
  /** What computes the device's parts now; absent: unknown. */
  readonly computing?: (() => ShownComputing) | undefined
  /** Whether verifications are padded to one length, which hides the draft length; undefined: on encrypted links. */
  readonly padding: boolean | undefined
  /** Time between verifications, in ms, with covers where there is none; frames are padded then. Undefined: each is sent when it is ready. */
  readonly intervalMs?: number | undefined
  /** Prefixes that bridges have cached; undefined: none are resumed or cached. */
  readonly prefixes: PrefixMemory | undefined
  readonly dims: Dims
  readonly input: Part
  readonly head: SharedHead
  /** Records the times of this device's steps. */
  readonly speed: DeviceSpeed
  createDrafter(sampling: Sampling, constraint?: RowConstraint): Drafter | TreeDrafter
  /** Gets what the machines of answers take and decide. */
  readonly recording?: Recording | undefined
}

export interface HatRequest {
  /** A client never resumes the prefix of another client. */
  readonly client: string
  readonly prompt: readonly number[]
  /** The answer so far, with which `prompt` ends: penalties count its tokens. Default: a new answer. */
  readonly answered?: readonly number[]
  readonly maxTokens: number
  readonly sampling: Sampling
  /** What the answer is kept to; undefined: nothing. */
  readonly constraint?: TokenConstraint | undefined
  /** Likeliest tokens that are reported beside each choice; undefined: no log probabilities. */
  readonly logprobs?: number | undefined
  /** Tokens that end the answer, of which they are part. */
  readonly eos: readonly number[]
  /** Tokens per second that the reader takes, > 0; undefined: unknown. */
  readonly tokensPerS?: number | undefined
  /** Its number in the ledger of disclosures; undefined: a job's. */
  readonly answer?: number | undefined
  /** Called when the answer waits for a bridge, because its session was lost. */
  readonly onWaiting?: (() => void) | undefined
}

/** Tokens that became certain at once: the first after prefill, then those of each verification. */
export interface HatRound {
  readonly tokens: readonly number[]
  /** Of each token, where the request asks for them. */
  readonly logprobs?: readonly TokenLogprobs[]
  readonly drafted: number
  readonly accepted: number
  /** Of the session up to here. */
  figures(): EndpointFigures
}
