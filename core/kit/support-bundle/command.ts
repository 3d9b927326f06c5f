import { execFile } from 'node:child_process'
import { X509Certificate } from 'node:crypto'
import { existsSync, readFileSync, writeFileSync } from 'node:fs'
import { release, totalmem } from 'node:os'
import { text } from 'node:stream/consumers'
import { promisify } from 'node:util'
import { gzipSync } from 'node:zlib'
import type { z } from 'zod'
import type { Check } from '../../commands/doctor-checks.ts'
import { nowIso } from '../base/clock.ts'
import { orThrow } from '../base/errors.ts'
import { dialPinned, sendRequest } from '../base/http-client.ts'
import type { Io } from '../base/io.ts'
import { nonEmpty } from '../base/setting-kinds.ts'
import { tarOf } from '../base/tar.ts'
import { pinOf } from '../base/tls-pin.ts'
import { version } from '../base/version.ts'
import { visibleLine } from '../base/visible-text.ts'
import type { Command } from '../cli/command.ts'
import { type Configuration, defineConfiguredCommand } from '../config-file/configured-command.ts'
import { effectiveSettings, mergeLayers, type Settings } from '../config-file/setting.ts'
import type { DatabaseFile } from './databases.ts'
import { scrub, scrubLogLine, scrubValue } from './scrub.ts'

const requestTimeoutMs = 5_000
const maxLogLines = 5_000
const maxJournalBytes = 64 * 2 ** 20

export interface SupportedProgram<Shape extends z.ZodRawShape> {
  readonly name: 'agent' | 'bridge'
  /** Of its command `run`. */
  readonly options: Shape
  readonly defaultFile: () => string | undefined
  /** Loaded when needed: help is shown where a native package is missing. */
  readonly databases: () => Promise<readonly DatabaseFile[]>
  /** Folder of its databases. @param given `--state-dir` */
  readonly stateDirOf: (owner: Settings, io: Io) => string
  readonly fleetOf?: (configuration: Configuration<Shape>, io: Io) => Settings
  /** URL of its HTTP on this machine. */
  readonly urlOf: (owner: Settings) => string
  /** Of that URL: what describes the process. */
  readonly paths: readonly string[]
  readonly checks: (io: Io) => Promise<readonly Check[]>
}

/** `brim agent|bridge support-bundle`: what helps to find a fault, without secrets, prompts and answers. */
export function supportBundleCommand<Shape extends z.ZodRawShape>(program: SupportedProgram<Shape>): Command {
  const { name } = program
  return defineConfiguredCommand({
    options: {
      ...program.options,
      out: nonEmpty.optional().meta({ description: 'archive that is written', fallback: `brim-${name}-support.tar.gz` }),
      logFile: nonEmpty
        .optional()
        .meta({ description: 'log of the process, as JSON lines', fallback: `that of the service brim-${name}` }),
    },
    optionsOf: `brim ${name} run`,
    defaultFile: program.defaultFile,
    examples: [
      [`sudo brim ${name} support-bundle --state-dir /var/lib/brim/${name}`, 'of the installed service, which may run'],
      [`brim ${name} support-bundle --log-file log.json --out fault.tar.gz`, `of a process that was started by hand`],
    ],
    notes:
      'Holds versions, options with their sources, checks of this machine, schemas and row counts of the databases, state and metrics\n' +
      'of the running process, and the log without the text of errors. Takes --out, --log-file, and the options of "run".',
    run: (configuration, io) => writeSupportBundle(program, configuration as unknown as Configuration<Shape>, io),
  })
}

async function writeSupportBundle<Shape extends z.ZodRawShape>(
  program: SupportedProgram<Shape>,
  configuration: Configuration<Shape>,
  io: Io,
): Promise<void> {
  const { owner, file, flags, json } = configuration
  const { name } = program
  const out = String(owner.get('out')?.value ?? `brim-${name}-support.tar.gz`)
  const stateDir = program.stateDirOf(owner, io)
  const [{ examineDatabases }, { asOwner }] = await Promise.all([import('./databases.ts'), import('../store/as-owner.ts')])
  const ofProgram = await program.databases()
  const fleet = attempt(() => program.fleetOf?.(configuration, io) ?? new Map())
  const options = effectiveSettings(flags, mergeLayers(fleet instanceof Map ? fleet : new Map(), owner)).map((option) => ({
    ...option,
    value: Array.isArray(option.value) ? option.value.map(scrubValue) : scrubValue(option.value),
  }))
  const contents: Record<string, unknown> = {
    'versions.json': {
      at: nowIso(),
      brim: version,
      node: process.version,
      system: `${process.platform} ${process.arch} ${release()}`,
      memoryBytes: totalmem(),
    },
    'config.json': { file: file ?? null, options, ...(fleet instanceof Map ? {} : { fleet }) },
    'doctor.json': await program.checks(io),
    'databases.json': { stateDir, databases: await asOwner(stateDir, () => examineDatabases(stateDir, ofProgram)) },
    ...(await describeProcess(program, owner, io)),
    'log.jsonl': await readLog(name, owner.get('log-file')?.value, io),
  }
  const files = Object.entries(contents).map(([path, content]) => ({
    name: `brim-support/${path}`,
    text: scrub(typeof content === 'string' ? content : `${JSON.stringify(content, null, 2)}\n`),
  }))
  orThrow(
    () => writeFileSync(out, gzipSync(tarOf(files, Math.floor(Date.now() / 1_000))), { mode: 0o600, flag: 'wx' }),
    'TARGET_UNWRITABLE',
    `${out} cannot be written`,
    'name a new file with --out',
  )
  if (json) io.out(JSON.stringify({ out, files: Object.keys(contents) }))
  else io.out(visibleLine(`${out}: ${Object.keys(contents).join(', ')}; read it before you send it`))
}

function attempt<T>(read: () => T): T | { error: string } {
  try {
    return read()
  } catch (error) {
    return { error: error instanceof Error ? error.message : String(error) }
  }
}

/** What the running process says about itself. */
async function describeProcess<Shape extends z.ZodRawShape>(
  { urlOf, paths }: SupportedProgram<Shape>,
  owner: Settings,
  io: Io,
): Promise<Record<string, string>> {
  const url = urlOf(owner)
  const certificate = String(owner.get('tls-cert')?.value ?? '')
  const pin = existsSync(certificate) ? pinOf(new X509Certificate(readFileSync(certificate)).publicKey) : undefined
  const read = async (path: string) => {
    const signal = AbortSignal.any([io.signal, AbortSignal.timeout(requestTimeoutMs)])
    const response = await sendRequest(new URL(path, url), { dial: dialPinned(pin), signal })
    return `status ${response.statusCode}\n${await text(response)}`
  }
  const entries = paths.map(async (path): Promise<[string, string]> => {
    const content = await read(path).catch((error: unknown) => `not read from ${url}: ${String(error)}\n`)
    return [`${path.slice(1)}.txt`, content]
  })
  return Object.fromEntries(await Promise.all(entries))
}

/** @throws BrimError USAGE */
function readLogFile(path: string): string {
  return orThrow(() => readFileSync(path, 'utf8'), 'USAGE', `--log-file ${path} cannot be read`, 'check the path')
}

/** The latest lines of the log, each without what others may have written. */
async function readLog(name: string, file: unknown, io: Io): Promise<string> {
  const unit = `brim-${name}.service`
  const lines = ['-u', unit, '-o', 'cat', '-n', String(maxLogLines), '--no-pager']
  const log =
    typeof file === 'string'
      ? readLogFile(file)
      : await promisify(execFile)('journalctl', lines, { maxBuffer: maxJournalBytes, signal: io.signal }).then(
          ({ stdout }) => stdout,
          () => '',
        )
  const all = log.split('\n').filter((line) => line !== '')
  const kept = all.slice(-maxLogLines).flatMap((line) => scrubLogLine(line) ?? [])
  const left = all.length - kept.length
  return `${[JSON.stringify({ lines: kept.length, notShown: left }), ...kept].join('\n')}\n`
}
