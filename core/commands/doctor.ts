import { join } from 'node:path'
import { styleText } from 'node:util'
import { BrimError } from '../kit/base/errors.ts'
import type { Io } from '../kit/base/io.ts'
import { stateHome } from '../kit/base/state-home.ts'
import { version } from '../kit/base/version.ts'
import { visibleLine } from '../kit/base/visible-text.ts'
import { type Command, defineCommand } from '../kit/cli/command.ts'
import { withDrivers } from '../model/engine/provider.ts'
import { checkCLibrary } from './doctor-c-library.ts'
import { type Check, checkClock, checkDisk, checkMemory, checkNode, checkRuntime } from './doctor-checks.ts'
import { checkNatives } from './doctor-natives.ts'
import { checkPorts } from './doctor-ports.ts'

/**
 * `brim doctor`: what this machine offers, and what is missing.
 * @param moreChecks of other parts of Brim
 */
export const doctorCommand = (moreChecks: readonly MoreChecks[] = []): Command =>
  defineCommand({
    examples: [
      ['brim doctor', 'one line per check; exit code 1 if one fails'],
      ['ORT_LIB=/opt/ort/libonnxruntime.so brim doctor', 'try another ONNX Runtime'],
      ['brim doctor --json', 'the same as one JSON document'],
    ],
    options: {},
    run: ({ json }, io) => examine(io, json, moreChecks),
  })

type MoreChecks = (io: Io) => Promise<readonly Check[]>

/** Every check of this machine. */
export async function checkMachine(io: Io, moreChecks: readonly MoreChecks[]): Promise<Check[]> {
  return [
    checkNode(process.versions.node),
    ...checkCLibrary(io.env.ORT_LIB),
    ...(await checkNatives()),
    ...(await checkRuntime(io.env.ORT_LIB, withDrivers({ name: 'auto' }, io.env))),
    checkMemory(),
    await checkDisk(join(stateHome(io), 'brim')),
    checkClock(),
    await checkPorts(),
    ...(await Promise.all(moreChecks.map((check) => check(io)))).flat(),
  ]
}

async function examine(io: Io, json: boolean, moreChecks: readonly MoreChecks[]): Promise<void> {
  const checks = await checkMachine(io, moreChecks)
  const failed = checks.filter(({ status }) => status === 'fail')
  if (json) io.out(JSON.stringify({ version, ok: failed.length === 0, checks: checks.map(toJson) }))
  else for (const check of checks) io.raw.out(toLine(check, io.outIsTty))
  const [first] = failed
  if (!first) return
  throw new BrimError(first.code ?? 'RUNTIME_FAILED', `checks failed: ${failed.map(({ name }) => name).join(', ')}`, {
    hint: first.hint,
  })
}

function toJson({ name, status, detail, hint, values }: Check) {
  return { name, status, detail, hint, ...values }
}

const colours = { ok: 'green', warn: 'yellow', fail: 'red' } as const

function toLine({ name, status, detail, hint }: Check, inColour: boolean): string {
  const word = status.padEnd(4)
  const head = inColour ? styleText(colours[status], word) : word
  const more = hint === undefined || status === 'ok' ? '' : `\n      try: ${visibleLine(hint)}`
  return `${head}  ${name.padEnd(14)}  ${visibleLine(detail)}${more}\n`
}
