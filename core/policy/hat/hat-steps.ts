import type { TimedSteps } from './device-speed.ts'
import type { Alternative } from './draft-branches.ts'
import type { Guess } from './draft-chain.ts'
import type { DraftHistory } from './draft-rounds.ts'
import type { MeasuredLink } from './in-flight.ts'

/** One answer by the split model, and how it is to be made. */
export interface HatRules {
  readonly promptTokens: number
  readonly maxTokens: number
  readonly contextLimit: number
  /**
   * `chunked`: in chunks of HAT Eq. 3, each sent while the next is computed. `whole`: the device computes all of it before it
   * sends any. `whole-all`: the same, and the bridge returns the deep states of all positions.
   */
  readonly prefill: 'chunked' | 'whole' | 'whole-all'
  /** Whether chunks grow while the link limits them; else each has the size of Eq. 3, as in the paper. */
  readonly growingChunks?: boolean | undefined
  /** Whether drafts are trees, made at once from verified states, or chains that grow token by token. */
  readonly draftsTrees: boolean
  /** Maximum tokens of a draft, in addition to the bridge's limit. */
  readonly draftLimit: number
  /** η of HAT Eq. 5, by which drafts end; undefined: they end where another token does not pay. */
  readonly threshold?: number | undefined
  /** Of the device's earlier answers. */
  readonly history?: DraftHistory | undefined
  /** Whether to draft during verifications. */
  readonly draftAhead: boolean
  /** A: bytes of a hidden state on its way up. */
  readonly bytesPerToken: number
  /** Tokens per second that the answer's reader takes; undefined: unknown. */
  readonly tokensPerS?: number | undefined
}

/** What the session allows, and what the device has measured, at the time of an input. */
export interface HatConditions extends MeasuredLink {
  readonly downBytesPerS?: number | undefined
  /** Seconds that the bridge has the frame of a verification; absent: as any frame. */
  readonly verificationS?: number | undefined
  /** X: the bridge may revise it at any time. */
  readonly chunkTokens: number
  /** Maximum rows per frame. */
  readonly frameTokens: number
  /** Maximum tokens of a draft, by the bridge. */
  readonly draftLimit: number
  /** Rows that verifications are padded to; undefined: none. */
  readonly paddedRows?: number | undefined
  /** Rows that the frames of prompts are padded to, each of as many at most; undefined: none. */
  readonly paddedPromptRows?: number | undefined
  /** Tokens of a prompt that the device computes per second; undefined before the first chunk. */
  readonly prefillTokensPerS?: number | undefined
  /** γ and γ_c; undefined before the first step. */
  readonly draftStepS?: number | undefined
  readonly aheadStepS?: number | undefined
  /** Whether the drafter of this round drafts during verifications. */
  readonly mayDraftAhead: boolean
}

/** Which path of a draft the LLM has chosen. */
export interface AcceptedPath {
  /** Accepted nodes of the draft, in the order in which they were drafted. */
  readonly path: readonly number[]
  /** Tokens that it adds to the answer, 1..path + 1: fewer where the text ends on the path. */
  readonly tokens: number
  readonly endsText: boolean
  /** The row drafted ahead after the path with the LLM's own next token; undefined: none. */
  readonly continuedBy?: number | undefined
}

/** What has happened to a frame, or to its session. */
export type UplinkEvent =
  /** With so many deep rows. */
  | { readonly kind: 'replied'; readonly frame: number; readonly rows: number }
  /** The bridge has fewer rows than those before the frame. */
  | { readonly kind: 'gap'; readonly frame: number; readonly held: number }
  /** Its session has ended. */
  | { readonly kind: 'failed'; readonly frame: number }
  /** Another session holds no rows yet. */
  | { readonly kind: 'reopened' }

/** What has happened. */
export type HatEvent =
  /** `held`: positions of the prompt that the bridge has; `computed`: those that the device has. Default: none. */
  | { readonly kind: 'opened'; readonly held: number; readonly computed?: number | undefined }
  // The device has done what it was to compute.
  | { readonly kind: 'fed' }
  | { readonly kind: 'caughtUp' }
  /** After each row that was asked for. */
  | { readonly kind: 'guessed'; readonly guesses: readonly (readonly Guess[])[] }
  /** The parent of each node of the tree, -1: the pending token. */
  | { readonly kind: 'guessedTree'; readonly parents: readonly number[] }
  | { readonly kind: 'accepted'; readonly acceptance: AcceptedPath }
  /** The frame is under way. */
  | { readonly kind: 'sent' }
  | UplinkEvent
  /** The reader has the tokens delivered. */
  | { readonly kind: 'taken' }

export type HatInput = HatEvent & { readonly conditions: HatConditions }

/** What rows are computed for. */
export type FedTokens =
  | { readonly of: 'prompt'; readonly from: number }
  | { readonly of: 'pending' }
  /** The pending token, and the nodes of the tree guessed last. */
  | { readonly of: 'tree' }
  | { readonly of: 'alternatives'; readonly alternatives: readonly Alternative[] }
  /** So many of the guesses after each row that was asked for. */
  | { readonly of: 'guesses'; readonly taken: readonly number[] }

/** What the device is to compute: one thing at a time. `context`: positions before the rows. */
export type HatComputation =
  /** The first layers. `parents`: the row that each row follows; absent: the row before it. */
  | {
      readonly kind: 'feed'
      readonly tokens: FedTokens
      readonly rows: number
      readonly context: number
      readonly parents?: readonly number[] | undefined
    }
  /** The drafter processes rows of the prompt. */
  | { readonly kind: 'catchUp'; readonly rows: number; readonly context: number }
  /** The drafter guesses what follows these rows. */
  | { readonly kind: 'guess'; readonly after: readonly number[]; readonly context: number }
  | { readonly kind: 'guessTree'; readonly maxDepth: number }
  /** The head chooses after each of the deep rows received last, of which the first is of this position, and accepts the draft. */
  | { readonly kind: 'accept'; readonly position: number; readonly rows: number }

/** What the link is to do. */
export type UplinkAction =
  | {
      readonly kind: 'exchange'
      readonly frame: number
      readonly from: number
      readonly to: number
      /** Rows at the end whose deep states come back. */
      readonly returned: number
      readonly paddedRows?: number | undefined
      /** Where frames of prompts are padded: whether its rows are those of a prompt, and not of a verification. */
      readonly ofPrompt?: boolean | undefined
      /** See FrameTree. */
      readonly tree?: { readonly kept: readonly number[]; readonly parents: readonly number[] } | undefined
    }
  /** Opens a session in place of the one that failed, or whose replies were not as long as requested. */
  | { readonly kind: 'reopen'; readonly wrongRows?: { readonly got: number; readonly wanted: number } }
  /** The answer ends: the bridge loses its rows again and again. */
  | { readonly kind: 'lost'; readonly times: number }

/** What is to be done. At most one computation, which comes last. */
export type HatAction =
  | HatComputation
  | UplinkAction
  | { readonly kind: 'measured'; readonly steps: TimedSteps }
  /** The stream keeps its first `keep` rows, followed by `rows` in this order. */
  | { readonly kind: 'gather'; readonly keep: number; readonly rows: readonly number[] }
  /** Tells the bridge how the answer's reader stands. */
  | { readonly kind: 'report'; readonly tokensPerS: number; readonly unread: number }
  /** The drafter has gained so many tokens. */
  | { readonly kind: 'roundEnded'; readonly tokens: number; readonly seconds: number }
  | { readonly kind: 'deliver'; readonly tokens: number; readonly drafted: number; readonly accepted: number }
  | { readonly kind: 'end' }
