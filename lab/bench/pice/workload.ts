import { seededRandom } from '../../../core/kit/base/random.ts'
import type { FilePrompt } from '../../../core/model/text/prompt-file.ts'
import { shuffled } from '../shuffled.ts'

/** Of the prompts whose answers are long. */
const longTasks: ReadonlySet<string> = new Set(['guide', 'tale'])

/** Up to `count` prompts for long answers, the same ones at each call. */
export function longPrompts(prompts: readonly FilePrompt[], count: number): FilePrompt[] {
  const long = prompts.filter(({ task, messages }) => messages && longTasks.has(task))
  return shuffled(long, seededRandom(1)).slice(0, count)
}

/**
 * Answers that were given, whole and in part, while at least `width` of all that were asked for at once were under way, per second.
 * @param answers when each piece of each answer arrived, in ms since all were asked for
 */
export function saturatedPerS(answers: readonly (readonly number[])[], width: number): number {
  const ends = answers.map((pieces) => pieces.at(-1) ?? 0).sort((a, b) => a - b)
  const untilMs = ends[Math.max(0, ends.length - width)] ?? 0
  const parts = answers.map((pieces) => pieces.filter((atMs) => atMs <= untilMs).length / Math.max(1, pieces.length))
  return (1_000 * parts.reduce((sum, part) => sum + part, 0)) / untilMs
}
