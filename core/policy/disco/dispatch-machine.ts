import { type Machine, noActions, type OfKind } from '../machine.ts'
import { AnswerController } from './answer-controller.ts'
import {
  AnswerDispatcher,
  type DispatchDraft,
  type DispatchPlan,
  type DispatchQuestion,
  type DispatchSettings,
  type SingleAnswer,
} from './answer-dispatcher.ts'
import type { ControllerAction, ControllerInput, Piece } from './controller-plan.ts'
import type { Estimates } from './dispatch-estimates.ts'
import type { Forecast } from './forecast.ts'
import { SmallModelUse } from './small-model-use.ts'
import type { Side } from './state.ts'

/** A piece whose content its sender keeps. */
export interface NumberedPiece extends Piece {
  readonly id: number
}

export type DispatchInput =
  /** A new answer is asked for. */
  | { readonly kind: 'ask'; readonly answer: number; readonly question: DispatchQuestion }
  /** Its budget admits these of the sides; none: it is refused. @param sharesTokens as of `AnswerController` */
  | { readonly kind: 'admit'; readonly answer: number; readonly sides: readonly Side[]; readonly sharesTokens: boolean }
  | (ControllerInput<NumberedPiece> & { readonly answer: number })
  /** It has freed what it held. Later ones change nothing. @param tokens of the answer; absent: it has no end of its own */
  | { readonly kind: 'end'; readonly answer: number; readonly tokens?: number | undefined }
  /** An endpoint has made an answer by itself. @param name of it, as of `RemoteStarts` */
  | { readonly kind: 'single'; readonly name: string; readonly single: SingleAnswer }
  /** An answer writes with the small model or waits for it, or does so no longer. */
  | { readonly kind: 'small model'; readonly isUsed: boolean }

export type DispatchAction =
  /** @param remote name of the remote side, where there was a choice */
  | ({ readonly kind: 'asked'; readonly remote?: string; readonly backups: readonly Side[]; readonly tokens: number } & Pick<
      DispatchDraft,
      'wanted'
    >)
  | ({ readonly kind: 'planned' } & Pick<DispatchPlan, 'dispatch' | 'constrained' | 'tokensPerS' | 'preferred'>)
  | ControllerAction<NumberedPiece>

export interface DispatchMachineSettings extends DispatchSettings {
  /** Answers that the small model writes at once. */
  readonly smallModelAnswers: number
}

/** An answer that has been admitted. */
export interface AdmittedAnswer {
  readonly plan: DispatchPlan
  readonly controller: AnswerController<NumberedPiece>
}

const sides: readonly Side[] = ['local', 'remote']

/** The dispatch of a device's answers and the controllers of those that are being made, by number. */
export class DispatchMachine implements Machine<DispatchInput, DispatchAction> {
  readonly smallModel: SmallModelUse
  readonly #dispatcher: AnswerDispatcher
  readonly #drafts = new Map<number, DispatchDraft>()
  readonly #answers = new Map<number, AdmittedAnswer>()
  readonly #uses: (() => void)[] = []

  constructor({ smallModelAnswers, ...settings }: DispatchMachineSettings, estimates: Estimates) {
    this.smallModel = new SmallModelUse(smallModelAnswers)
    this.#dispatcher = new AnswerDispatcher(settings, estimates, this.smallModel)
  }

  get wakeMs(): number | undefined {
    const wakes = [...this.#answers.values()].flatMap(({ controller: { wakeMs } }) => (wakeMs === undefined ? [] : [wakeMs]))
    return wakes.length === 0 ? undefined : Math.min(...wakes)
  }

  /** As of `AnswerDispatcher`. */
  forecasts(question: DispatchQuestion): readonly Forecast[] {
    return this.#dispatcher.forecasts(question)
  }

  /** From `ask` to `admit`. */
  draftOf(answer: number): DispatchDraft {
    return this.#drafts.get(answer)!
  }

  /** From `admit` to `end`. */
  answerOf(answer: number): AdmittedAnswer {
    return this.#answers.get(answer)!
  }

  handle(input: DispatchInput, nowMs: number): readonly DispatchAction[] {
    switch (input.kind) {
      case 'ask': {
        const draft = this.#dispatcher.ask(input.question)
        this.#drafts.set(input.answer, draft)
        const { remote, wanted, work } = draft
        const asked = sides.filter((side) => input.question.sides[side])
        const chosen = input.question.instead && remote !== undefined ? { remote } : {}
        return [{ kind: 'asked', ...chosen, wanted, backups: asked.filter(draft.isBackup), tokens: work.tokens }]
      }
      case 'admit':
        return this.#admit(input)
      case 'end':
        this.#answers.get(input.answer)?.plan.ended(input.tokens)
        this.#answers.delete(input.answer)
        return noActions
      case 'single':
        this.#dispatcher.learn(input.name, input.single)
        return noActions
      case 'small model':
        if (input.isUsed) this.#uses.push(this.smallModel.begin())
        else this.#uses.pop()?.()
        return noActions
      default:
        return this.answerOf(input.answer).controller.handle(input, nowMs)
    }
  }

  #admit({ answer, sides, sharesTokens }: OfKind<DispatchInput, 'admit'>): readonly DispatchAction[] {
    const draft = this.draftOf(answer)
    this.#drafts.delete(answer)
    if (sides.length === 0) {
      draft.drop()
      return noActions
    }
    const plan = draft.begin(sides)
    this.#answers.set(answer, { plan, controller: new AnswerController(plan, sharesTokens) })
    const { dispatch, constrained, tokensPerS, preferred } = plan
    return [{ kind: 'planned', dispatch, constrained, tokensPerS, preferred }]
  }
}
