import { z } from 'zod'
import { visibleLine } from '../../../core/kit/base/visible-text.ts'
import { columns } from '../../../core/kit/cli/columns.ts'
import { type Command, defineCommand, type Menu } from '../../../core/kit/cli/command.ts'
import { bridgeOptions } from '../../../core/kit/login/bridge-access.ts'
import { rolloutOperations } from '../../../core/wire/protocol/http/rollouts.ts'
import { bridgeClient } from '../bridge-client.ts'
import { bridgeCommand } from '../request-command.ts'
import { showNew } from './follow.ts'
import { rolloutIdOption, summaryText } from './rollout-text.ts'

const list = bridgeCommand({
  examples: [['brim rollout list', 'the newest first']],
  options: { limit: z.int().min(1).default(20).describe('max rollouts') },
  request: (client, { limit }) => client.call(rolloutOperations.list, { query: { limit } }),
  text({ rollouts }) {
    if (rollouts.length === 0) return { note: 'no rollouts' }
    const rows = rollouts.map(({ id, kind, state, devices, createdAt, createdBy, reason }) => {
      const done = `${devices.succeeded}/${devices.total}`
      return [id, kind, state, done, String(devices.failed), createdAt, createdBy, reason ?? '']
    })
    return columns([['ROLLOUT', 'KIND', 'STATE', 'DONE', 'FAILED', 'CREATED', 'BY', 'REASON'], ...rows])
  },
})

/** Prints what the rollout is then. */
const control = (word: 'pause' | 'resume' | 'abort', texts: Pick<Command, 'examples' | 'notes'>) =>
  bridgeCommand({
    ...texts,
    options: { id: rolloutIdOption },
    request: (client, { id }) => client.call(rolloutOperations[word], { params: { id } }),
    text: (rollout) => ({
      out: visibleLine(summaryText(rollout)),
      note: rollout.changed ? undefined : visibleLine(`nothing changed: the rollout was ${rollout.state} before`),
    }),
  })
const pause = control('pause', { examples: [['brim rollout pause 3f9a1c07', 'devices that have started go on']] })
const resume = control('resume', { examples: [['brim rollout resume 3f9a1c07', 'paused by hand, or after its first group']] })
const abort = control('abort', {
  examples: [['brim rollout abort 3f9a1c07', 'the others are left as they are']],
  notes: 'A device that had finished before its job was canceled keeps what it has installed.',
})

const retry = defineCommand({
  examples: [['brim rollout retry 3f9a1c07 --watch', 'the same again, for the devices that failed']],
  notes: 'It is a new rollout, with the pace of the one before. Devices that were canceled or skipped are not part of it.',
  options: {
    id: rolloutIdOption,
    ...bridgeOptions,
    watch: z.boolean().default(false).describe('follow the new rollout to its end; exit code 1 where devices did not succeed'),
  },
  async run({ id, watch, json, ...options }, io) {
    const client = await bridgeClient(options, io)
    const { raw, value } = await client.call(rolloutOperations.retry, { params: { id } })
    const { rollout, devices } = value
    if (rollout) await showNew(client, { raw, id: rollout.id, devices: devices.length }, { watch, json }, io)
  },
})

/** `brim rollout …` */
export const menu: Menu = {
  examples: [
    ['brim rollout create bundle --model qwen --label site=lab --watch', 'install a model on a part of the fleet'],
    ['brim rollout status', 'how far the latest rollout is'],
  ],
  commands: {
    'create <what>': ['install a bundle, configuration or software on devices, a few at a time', () => import('./create.ts')],
    'status [id]': ['show how far a rollout is; default: the latest', () => import('./status.ts')],
    list: ['list the latest rollouts', () => ({ command: list })],
    'pause <id>': ['start no further devices', () => ({ command: pause })],
    'resume <id>': ['go on; also past the first group once it has ended', () => ({ command: resume })],
    'retry <id>': ['begin another rollout of the same, for the devices that failed', () => ({ command: retry })],
    'abort <id>': ['start no further devices, and cancel what runs', () => ({ command: abort })],
  },
}
