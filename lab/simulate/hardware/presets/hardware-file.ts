import { parseDocument } from 'yaml'
import { z } from 'zod'
import { BrimError } from '../../../../core/kit/base/errors.ts'
import { type Board, powerSchema } from '../board.ts'
import { noThrottling, throttlingSchema } from '../heat.ts'
import type { Hardware } from '../roofline.ts'

const positive = z.number().positive()
const notNegative = z.number().nonnegative()

const HardwareFile = z.strictObject({
  name: z.string().min(1),
  source: z.string().default('a file'),
  memoryBytes: positive,
  bytesPerS: positive,
  flopPerS: positive,
  layerS: notNegative,
  streamS: notNegative.default(0),
  hostBytesPerS: positive.default(10e9),
  peerBytesPerS: positive.default(10e9),
  power: powerSchema.default({ idleW: 0, computeW: 0, radioW: 0 }),
  throttling: throttlingSchema.default(noThrottling),
})

/** Names that are files in place of presets. */
export const isHardwareFile = (name: string): boolean => /\.(ya?ml|json)$/.test(name)

/**
 * A machine of one's own, as `brim simulate calibrate` writes it.
 *
 * @param file for messages
 * @throws BrimError CONFIG_INVALID naming each wrong field
 */
export function parseHardwareFile(text: string, file: string): Board {
  const document = parseDocument(text, { prettyErrors: false })
  const problems = document.errors.map(({ message }) => message)
  const parsed = HardwareFile.safeParse(document.toJS())
  if (!parsed.success)
    problems.push(...parsed.error.issues.map(({ path, message }) => `${path.join('.') || 'the file'} ${message}`))
  if (!parsed.success || problems.length > 0)
    throw new BrimError('CONFIG_INVALID', `${file} describes no machine: ${problems.join('; ')}`, {
      hint: '"brim simulate calibrate" writes such files',
    })
  const { power, throttling, ...hardware } = parsed.data
  return {
    name: hardware.name,
    hardware: { ...hardware, gpus: 1 },
    power,
    powerModes: [{ name: 'normal', speed: 1 }],
    throttling,
    measured: {},
    source: hardware.source,
  }
}

/** @param notes lines for readers of the file */
export function hardwareFileText(hardware: Hardware, notes: readonly string[]): string {
  const { name, source, memoryBytes, bytesPerS, flopPerS, layerS, streamS, hostBytesPerS, peerBytesPerS } = hardware
  const fields = { name, source, memoryBytes, bytesPerS, flopPerS, layerS, streamS, hostBytesPerS, peerBytesPerS }
  const lines = Object.entries(fields).map(
    ([key, value]) => `${key}: ${typeof value === 'number' ? Number(value.toPrecision(4)) : JSON.stringify(value)}`,
  )
  return `${[...notes.map((note) => `# ${note}`), ...lines].join('\n')}\n`
}
