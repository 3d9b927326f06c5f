import './no-eval.ts'
import { type RecordedAnswer, readRecording } from '../../core/wire/openai/recorded-answer.ts'
import { errorText, pause } from './api.ts'
import { ViewModel } from './model.ts'
import { askedTurn, type Turn, turnAfter } from './turn.ts'

const maxBytes = 4_000_000
export const speeds = ['1', '4', '0.25'] as const

/** Recorded answers, which happen again in this tab. Their text goes nowhere. */
export class ReplayModel extends ViewModel {
  answers: readonly RecordedAnswer[] = []
  turns: readonly Turn[] = []
  speed: (typeof speeds)[number] = '1'
  problem: string | undefined
  playing: AbortController | undefined
  /** Times that it has begun. */
  runs = 0

  choose(speed: ReplayModel['speed']): void {
    this.speed = speed
    this.changed()
  }

  /** Of "brim ask --record". */
  async open(file: File): Promise<void> {
    try {
      if (file.size > maxBytes) throw new Error(`it has more than ${maxBytes / 1e6} MB`)
      this.answers = readRecording(await file.text())
      this.problem = undefined
    } catch (error) {
      this.problem = `${file.name} is no recording of "brim ask --record": ${errorText(error)}`
    }
    return this.problem ? this.changed() : this.play()
  }

  /** The answers one after the other, from the first. */
  async play(): Promise<void> {
    this.finish()
    const playing = new AbortController()
    this.playing = playing
    this.runs += 1
    this.turns = []
    for (const answer of this.answers) {
      const before = this.turns
      let [turn, lastMs] = [askedTurn(answer), 0]
      for (const event of answer.events) {
        this.turns = [...before, turn]
        this.changed()
        await pause((event.atMs - lastMs) / Number(this.speed), playing.signal)
        if (playing.signal.aborted) return
        turn = turnAfter(turn, event)
        lastMs = event.atMs
      }
      this.turns = [...before, turn]
    }
    this.finish()
  }

  /** Shows the answers complete. */
  finish(): void {
    this.playing?.abort()
    this.playing = undefined
    this.turns = this.answers.map((answer) => answer.events.reduce(turnAfter, askedTurn(answer)))
    this.changed()
  }
}
