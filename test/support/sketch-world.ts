import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect } from 'vitest'
import { finish, piece, scriptedUpstream, startStream } from './scripted-upstream.ts'

/** The sketch of every answer. */
export const lines = ['flour and water', 'knead it well', 'bake for long']
/** The full answer. */
export const whole = 'A full answer.'

const prompts = {
  foresight: 'How many tokens?',
  foresightUnit: 'tokens',
  sketch: 'Sketch at level {level}.',
  sketchShares: [0.4, 0.3],
  expand: 'Sketch:\n{sketch}\n\nWrite out: {line}',
  expandNext: 'Write out: {line}',
}

/** A file with the prompts of the upstream. */
export function picePrompts(folder: string): string {
  const file = join(folder, 'prompts.json')
  writeFileSync(file, JSON.stringify(prompts))
  return file
}

/** An upstream that does as it is asked. */
export const openUpstream = () =>
  scriptedUpstream((response, { body: { messages } }) => {
    const instruction = String((messages as { content: string }[]).at(-1)?.content.split('\n\n').at(-1))
    const reply =
      instruction === prompts.foresight
        ? '120'
        : instruction.startsWith('Sketch at')
          ? lines.join('\n')
          : instruction.startsWith('Write out')
            ? `${instruction.slice('Write out: '.length)} by the model.`
            : whole
    // Several tokens, so that the bridge measures a speed.
    startStream(response, ...reply.split(/(?<=\s)/).map(piece), finish)
    response.end()
  })

/** The answer whose sentences these have written: devices, or `the model`. */
export const textOf = (by: readonly string[]) => lines.map((line, at) => `${line} by ${by[at]}.`).join(' ')

export const body = { messages: [{ role: 'user', content: 'How do I bake bread?' }], brim: { mode: 'sketch' as const } }

/** The bridge asks a device for its profile when it is there; plans count with it then. */
export async function isProfiled(url: string, device: string): Promise<void> {
  const shown = async () => (await fetch(`${url}/v1/devices/${device}`)).text()
  await expect.poll(shown).toContain('"slm"')
}
