import { z } from 'zod'
import { systemClock } from '../../../core/kit/base/clock.ts'
import { BrimError } from '../../../core/kit/base/errors.ts'
import { off } from '../../../core/kit/base/setting-kinds.ts'
import { visibleLine } from '../../../core/kit/base/visible-text.ts'
import { defineCommand } from '../../../core/kit/cli/command.ts'
import { bridgeOptions } from '../../../core/kit/login/bridge-access.ts'
import { bridgeOperations } from '../../../core/wire/protocol/http/bridge.ts'
import type { SharedDatabase } from '../../../core/wire/protocol/http/devices.ts'
import { bridgeClient } from '../bridge-client.ts'

const pollMs = 500
/** A lease passes on in seconds. */
const maxFailures = 60

export const command = defineCommand({
  examples: [
    ['brim bridge drain bridge-a', 'before maintenance of its machine: returns once nothing depends on it'],
    ['brim bridge drain bridge-a --undo', 'it serves devices again; so does a process that was started again'],
  ],
  options: {
    node: z.string().min(1).describe('name of the process, as "brim fleet status" shows it'),
    undo: off.describe('let it serve devices, and become the primary, again'),
    wait: z
      .boolean()
      .default(true)
      .describe('wait until it serves no device and is not the primary; --no-wait: return once that is asked for'),
    ...bridgeOptions,
  },
  async run({ undo, wait, ...options }, io) {
    const { node } = options
    const client = await bridgeClient(options, io)
    const { value: asked } = await client.call(undo ? bridgeOperations.undrain : bridgeOperations.drain, { params: { node } })
    const print = (state: SharedDatabase, text: string) =>
      io.out(options.json ? JSON.stringify(state) : visibleLine(`${node}: ${text}`))
    if (undo) return print(asked, 'serves devices again')
    if (!wait) return print(asked, 'asked to send its devices away')
    let told = ''
    for (let failures = 0; ; ) {
      const state = await client.call(bridgeOperations.nodes, {}).then(
        ({ value }) => value,
        (error: unknown) => {
          failures += 1
          if (!isPassing(error) || failures > maxFailures) throw error
        },
      )
      const rest = state ? remainderOf(state, node) : 'another process becomes the primary'
      if (state && rest === undefined) return print(state, 'drained: it serves no device')
      if (rest !== undefined && rest !== told) io.err(visibleLine(`${node}: ${rest}`))
      told = rest ?? ''
      await systemClock.sleep(pollMs, io.signal)
    }
  },
})

/** Failures while the lease passes on. */
const isPassing = (error: unknown): boolean =>
  error instanceof BrimError && ['NO_PRIMARY', 'BRIDGE_UNREACHABLE', 'LINK_LOST'].includes(error.code)

/** What still depends on the process; undefined: nothing. */
function remainderOf({ primary, loads }: SharedDatabase, node: string): string | undefined {
  const { links, sessions, isDraining } = loads.find((each) => each.node === node) ?? { links: 0, sessions: 0, isDraining: true }
  if (!isDraining) return 'asked'
  if (primary === node) return `${sessions} sessions, ${links} devices; it is the primary`
  return links === 0 ? undefined : `${sessions} sessions, ${links} devices`
}
