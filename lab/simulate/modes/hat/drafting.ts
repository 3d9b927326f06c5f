import type { Random } from '../../../../core/base/random.ts'
import type { DeviceSpeed } from '../../../../core/policy/hat/device-speed.ts'
import { plannedStepsAhead, type RoundTrip } from '../../../../core/policy/hat/draft-ahead-steps.ts'
import type { Simulation } from '../../kernel/simulation.ts'
import { type Chain, type DraftedToken, type DraftProcess, emptyChain, extended, rightTokens } from './draft-process.ts'

export interface DraftingOptions {
  readonly simulation: Simulation
  readonly process: DraftProcess
  readonly random: Random
  readonly speed: DeviceSpeed
  /** η of Eq. 5. */
  readonly threshold: number
  /** Whether drafts are prepared during verifications. */
  readonly ahead: boolean
  /** Branches of drafting ahead beside the draft's own. */
  readonly alternatives: number
  /** How often one of them is the correction of a rejected last token. */
  readonly alternativeShare: number
  /** Computes the first layers for `rows` rows after `context` positions. */
  feed(rows: number, context: number, done: () => void): void
  /** Computes adapter and head for as many rows, then the first layers for the tokens that they choose. */
  step(rows: number, context: number, done: () => void): void
}

/** What drafts ahead of a verification: the branch of the draft's last token, and those of the alternatives to it. */
interface Ahead {
  readonly branches: Chain[]
  steps: number
  isOver: boolean
}

/** The drafts of one answer, as agent/hat/drafting.ts makes them. Mutable. */
export class Drafting {
  readonly #options: DraftingOptions
  #draft: Chain = emptyChain
  #ahead: Ahead | undefined
  /** Drafted ahead, after the token that is pending now. */
  #prepared: Chain | undefined

  constructor(options: DraftingOptions) {
    this.#options = options
  }

  /** Feeds the pending token at `position` and drafts after it, or continues the draft prepared ahead. */
  draft(position: number, limit: number, done: (drafted: number) => void): void {
    const { simulation, speed, feed, step } = this.#options
    const limits = { threshold: this.#options.threshold, limit }
    const prepared = this.#prepared
    const before = Math.min(prepared?.tokens.length ?? 0, limit)
    this.#prepared = undefined
    this.#draft = prepared ? { ...prepared, tokens: prepared.tokens.slice(0, before) } : emptyChain
    let startedMs = simulation.nowMs
    const next = (): void => {
      const { tokens, ended } = this.#draft
      if (ended || tokens.length >= limit) {
        speed.recordDraft(tokens.length - before, (simulation.nowMs - startedMs) / 1_000)
        done(tokens.length)
      } else {
        step(1, position + tokens.length, () => {
          this.#draft = extended(this.#draft, this.#drawn(), limits)
          next()
        })
      }
    }
    const start = () => {
      startedMs = simulation.nowMs
      next()
    }
    if (prepared) start()
    else feed(1, position, start)
  }

  /** Drafts ahead during the verification of the draft, for the steps that fit into it (Eq. 6) and no longer than it lasts. */
  draftAhead(position: number, limit: number, trip: RoundTrip): void {
    const { ahead, alternatives, speed, feed } = this.#options
    if (!ahead || limit === 0) return
    const maxSteps = plannedStepsAhead(trip, speed)
    if (maxSteps === 0) return
    const others = this.#draft.tokens.length > 0 ? alternatives : 0
    const run: Ahead = { branches: Array.from({ length: 1 + others }, () => emptyChain), steps: 0, isOver: false }
    this.#ahead = run
    const tip = position + this.#draft.tokens.length
    if (others > 0) feed(others, tip, () => this.#stepAhead(run, maxSteps, tip, limit))
    else this.#stepAhead(run, maxSteps, tip, limit)
  }

  /** The verification has ended. @returns the draft's right tokens */
  verified(): number {
    if (this.#ahead) this.#ahead.isOver = true
    return rightTokens(this.#draft.tokens)
  }

  /** After a verification: what was drafted ahead of the correction or bonus token is the beginning of the next draft. */
  settle(right: number): void {
    const ahead = this.#ahead
    this.#ahead = undefined
    this.#prepared = ahead && this.#branchAfter(ahead, right)
  }

  #stepAhead(run: Ahead, left: number, tip: number, limit: number): void {
    const { simulation, speed, threshold, step } = this.#options
    const active = run.branches.flatMap((branch, at) => (branch.ended ? [] : [at]))
    if (left === 0 || run.isOver || active.length === 0) return
    const startedMs = simulation.nowMs
    step(active.length, tip + run.steps, () => {
      // What the reply has overtaken is not known to be the answer's continuation.
      if (run.isOver) return
      run.steps += 1
      for (const at of active) {
        // The first token of the draft's own branch becomes the pending one.
        const limits = { threshold, limit: at === 0 ? limit + 1 : limit }
        run.branches[at] = extended(run.branches[at]!, this.#drawn(), limits)
      }
      speed.recordAheadStep((simulation.nowMs - startedMs) / 1_000)
      this.#stepAhead(run, left - 1, tip, limit)
    })
  }

  #branchAfter({ branches }: Ahead, right: number): Chain | undefined {
    const { random, alternativeShare } = this.#options
    const { length } = this.#draft.tokens
    const [own, alternative] = branches
    if (right === length) {
      const [bonus, ...rest] = own!.tokens
      if (!bonus?.isRight) return undefined
      return { tokens: rest, ended: own!.ended && rest.length > 0 }
    }
    return right === length - 1 && alternative && random.next() < alternativeShare ? alternative : undefined
  }

  #drawn(): DraftedToken {
    return this.#options.process.next(this.#options.random)
  }
}
