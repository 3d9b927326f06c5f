/**
 * What decides over time: an input with its time in, actions out. It holds no socket, timer, disk or promise, so that the live
 * system and the simulator drive the same one. Inputs and actions are plain data without text.
 */
export interface Machine<Input, Action> {
  /** @param nowMs of a clock that never goes back */
  handle(input: Input, nowMs: number): readonly Action[]
  /** When an input that only tells the time is due, if nothing happens before; undefined: never. */
  readonly wakeMs: number | undefined
}

/** The inputs or actions of a kind. */
export type OfKind<Tagged, Kind> = Tagged extends { readonly kind: infer Own } ? (Kind extends Own ? Tagged : never) : never

/** What is done on each kind of input, or to carry out each kind of action. */
export type HandlersOf<Tagged extends { readonly kind: string }> = {
  readonly [Kind in Tagged['kind']]: (tagged: OfKind<Tagged, Kind>) => void
}

export function handleKind<Tagged extends { readonly kind: string }>(handlers: HandlersOf<Tagged>, tagged: Tagged): void {
  const handler = handlers[tagged.kind as Tagged['kind']] as (tagged: Tagged) => void
  handler(tagged)
}

/** For the inputs that nothing follows from. */
export const noActions: readonly never[] = []

/** What a machine decides during one input. */
export class PendingActions<Action> {
  #actions: Action[] = []

  push(action: Action): void {
    this.#actions.push(action)
  }

  /** All since the last call, which the caller keeps. */
  take(): readonly Action[] {
    if (this.#actions.length === 0) return noActions
    const actions = this.#actions
    this.#actions = []
    return actions
  }
}
