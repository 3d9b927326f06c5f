import type { Endpoint } from '../../core/answer/endpoint/endpoint.ts'
import type { PicePrompts } from '../../core/answer/sketch/prompts.ts'
import type { SmallModelSpeed } from '../../core/policy/pice/state.ts'
import type { LocalModel } from '../slm/local-model.ts'

/** A small model that is open: of a bundle, whose steps this process computes, or on a local server. */
export type OpenSmallModel = { readonly prompts: PicePrompts } & (
  | { readonly kind: 'bundle'; readonly model: LocalModel }
  | { readonly kind: 'server'; readonly endpoint: Endpoint }
)

export interface BorrowedModel {
  readonly open: OpenSmallModel
  /** Time that opening it took, 0 where it was open. */
  readonly loadMs: number
  release(): void
}

/** The small models of this device. As many are open as memory allows, at least one. */
export interface SmallModels {
  /** Ascending by ability. Speeds as measured by the last profile, corrected since; models that do not fit are left out. */
  list(): readonly SmallModelSpeed[]
  /** Name of the model that is open and was used last. */
  readonly current: string | undefined
  /**
   * Opens a model if it is not open; closes another that is not borrowed where memory demands it.
   * @throws BrimError MODEL_MISSING, OUT_OF_MEMORY, and as its opening; CANCELED
   */
  borrow(name: string, signal: AbortSignal): Promise<BorrowedModel>
  /** Corrects the measured speed of a model by an expansion. */
  record(run: { readonly model: string; readonly sequences: number; readonly tokens: number; readonly tookMs: number }): void
}
