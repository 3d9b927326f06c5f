import { createReadStream } from 'node:fs'
import { createInterface } from 'node:readline'
import { z } from 'zod'
import { BrimError } from '../../../core/kit/base/errors.ts'
import { defineCommand } from '../../../core/kit/cli/command.ts'
import { encodeLine } from '../../../core/policy/recording.ts'
import { machines } from '../../replay/machines.ts'
import { type ReplayDifference, replay } from '../../replay/replay.ts'

/** Differences that are printed. */
const shown = 10

export const command = defineCommand({
  examples: [
    ['brim agent run --record agent.jsonl', 'record what the machines of an agent take and decide'],
    ['brim simulate replay agent.jsonl', 'whether the present code decides the same'],
  ],
  notes: 'A recording holds sizes, times and decisions, no text. Exits with 1 where a decision differs.',
  options: { file: z.string().min(1).describe('recording of an agent or a bridge (--record)') },
  async run({ file, json }, io) {
    const result = replayed(file, await linesOf(file))
    const { machines: count, inputs, differences } = result
    if (json) io.out(encodeLine(result))
    else {
      io.out(`${count} machines, ${inputs} inputs, ${differences.length} machines that decide otherwise`)
      for (const difference of differences.slice(0, shown)) io.out(textOf(difference))
      if (differences.length > shown) io.out(`and ${differences.length - shown} more; --json shows all`)
    }
    if (differences.length > 0)
      throw new BrimError('REPLAY_DIFFERS', `${differences.length} of ${count} machines decide otherwise than in ${file}`, {
        hint: 'a change of behaviour that is intended needs a new recording',
      })
  },
})

/** @throws BrimError CONFIG_INVALID */
function replayed(file: string, lines: readonly string[]) {
  try {
    return replay(lines, machines)
  } catch (cause) {
    throw new BrimError('CONFIG_INVALID', `${file} cannot be replayed`, {
      cause,
      hint: 'record it with --record of this release',
    })
  }
}

/** @throws BrimError CONFIG_INVALID */
async function linesOf(file: string): Promise<readonly string[]> {
  const lines: string[] = []
  try {
    for await (const line of createInterface({ input: createReadStream(file) })) lines.push(line)
  } catch (cause) {
    throw new BrimError('CONFIG_INVALID', `cannot read the recording ${file}`, { cause, hint: 'record one with --record' })
  }
  return lines
}

const textOf = ({ line, machine, input, recorded, replayed }: ReplayDifference): string =>
  [
    `line ${line}, ${machine}: ${encodeLine(input)}`,
    `  recorded ${encodeLine(recorded)}`,
    `  now      ${encodeLine(replayed)}`,
  ].join('\n')
