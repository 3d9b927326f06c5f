import { access, constants, mkdir, readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { z } from 'zod'
import { BrimError } from '../../core/kit/base/errors.ts'
import { projectRoot } from '../../core/kit/base/version.ts'
import { renderFigure } from '../plot/plot.ts'
import type { Bench, BenchDocument, BenchReport, Goals, Shown } from './bench.ts'
import { benchPage, shownOf } from './page.ts'

const Document = z.object({
  bench: z.string(),
  conditions: z.record(z.string(), z.unknown()),
  summary: z.record(z.string(), z.number().nullable()),
  runs: z.array(z.looseObject({})),
  repetitions: z.array(z.record(z.string(), z.number().nullable())).optional(),
  shown: z.custom<Shown>((value) => typeof value === 'object').optional(),
})

type Named = Pick<Bench, 'name' | 'commandLine'>

export const commandLineOf = ({ name, commandLine = `brim bench ${name}` }: Named): string => commandLine

/** Where --save writes. */
export const resultFolder = (name: string): string => fileURLToPath(new URL(`docs/results/${name}/`, projectRoot))

/** Reads a document that --save has written. @throws BrimError REQUEST_INVALID */
export async function readDocument(file: string, bench: Named): Promise<BenchDocument> {
  const invalid = (problem: string, cause?: unknown) =>
    new BrimError('REQUEST_INVALID', `${file} ${problem}`, {
      cause,
      hint: `give a file that "${commandLineOf(bench)} --save" wrote`,
    })
  const text = await readFile(file, 'utf8').catch((cause: unknown) => {
    throw invalid('cannot be read', cause)
  })
  try {
    const document = Document.parse(JSON.parse(text))
    if (document.bench === bench.name) return document
  } catch (cause) {
    throw invalid('is not a benchmark document', cause)
  }
  throw invalid('is the document of another benchmark')
}

/** Creates a folder before anything is measured. @throws BrimError TARGET_UNWRITABLE */
export async function createFolder(folder: string): Promise<void> {
  try {
    await mkdir(folder, { recursive: true })
    await access(folder, constants.W_OK)
  } catch (cause) {
    throw unwritable(folder, cause)
  }
}

/** Without the samples that only --out and --json give. */
export function savedDocument(document: BenchDocument, report: BenchReport): BenchDocument {
  if (document.shown || !report.keptRuns) return document
  return { ...document, runs: report.keptRuns(document), shown: shownOf(document, report) }
}

/** JSON with a line for each run, condition and figure. */
function documentText(document: BenchDocument): string {
  const block = ([open, close]: readonly [string, string], lines: readonly string[]) =>
    `${open}\n  ${lines.join(',\n  ')}\n ${close}`
  const named = ([name, value]: readonly [string, unknown]) => `${JSON.stringify(name)}: ${JSON.stringify(value)}`
  const parts = Object.entries(document).flatMap(([name, value]) => {
    if (value === undefined) return []
    if (typeof value === 'string') return [named([name, value])]
    const text = Array.isArray(value)
      ? block(
          ['[', ']'],
          value.map((each) => JSON.stringify(each)),
        )
      : block(
          ['{', '}'],
          Object.entries(value as object)
            .filter(([, each]) => each !== undefined)
            .map(named),
        )
    return [`${JSON.stringify(name)}: ${text}`]
  })
  return `{\n ${parts.join(',\n ')}\n}\n`
}

/** Writes document, figure and page. @throws BrimError TARGET_UNWRITABLE */
export async function saveResults(folder: string, document: BenchDocument, report: BenchReport, goals: Goals): Promise<void> {
  const texts = {
    json: documentText(document),
    svg: renderFigure(shownOf(document, report).figure),
    md: benchPage(document, report, goals),
  }
  try {
    for (const [ending, text] of Object.entries(texts)) await writeFile(join(folder, `${document.bench}.${ending}`), text)
  } catch (cause) {
    throw unwritable(folder, cause)
  }
}

const unwritable = (folder: string, cause: unknown) =>
  new BrimError('TARGET_UNWRITABLE', `${folder} cannot be written`, { cause, hint: 'name another folder with --out' })
