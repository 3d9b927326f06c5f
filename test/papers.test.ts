import { readdirSync, readFileSync } from 'node:fs'
import { join, relative } from 'node:path'
import { fileURLToPath } from 'node:url'
import { describe, expect, it } from 'vitest'

const root = fileURLToPath(new URL('..', import.meta.url))
const papers = ['HAT', 'PICE', 'DiSCo', 'TokenFlow'] as const
type Paper = (typeof papers)[number]

interface Citation {
  paper: Paper
  /** As the tables name it: 'Eq. 3', 'Algorithm 1', 'Fig. 6', 'Table IV', '§4.2'. */
  place: string
  file: string
}

const number = String.raw`(?:\d{1,2}(?!\.?\d|\.\.| <)[a-z]?\b|[IV]+\b)`
const list = `${number}(?:(?:, | and | or |, and | to |–)${number})*`
const section = String.raw`(?:\d(?:\.\d)*|[IV]+(?:-[A-D](?:, [A-D])*)?)`
/** 'Eq. 4, 5', 'Algorithms 1 to 3', 'Figs. 6, 12 and 13', '§4.2', '§V-C, D'. */
const placePattern = new RegExp(String.raw`\b(Eq|Algorithm|Fig|Table)s?\.? (${list})|§(${section})`, 'g')

const folders = ['core', 'agent', 'cloud-bridge', 'lab', 'scripts', 'test', 'jetson', 'docs']
const cited = [...folders.flatMap((folder) => textFiles(join(root, folder))), join(root, 'README.md'), join(root, 'SECURITY.md')]
const citations = cited.flatMap(citationsOf)
const rows = rowsOf(readFileSync(join(root, 'docs/papers.md'), 'utf8'))

describe('docs/papers.md', () => {
  it('has citations to explain', () => {
    expect(citations.length).toBeGreaterThan(150)
  })

  it('has a row for each equation, algorithm, figure, table and section of a paper that is cited', () => {
    const missing = citations.filter(({ paper, place }) => !rows.get(paper)?.has(place))
    expect([...new Set(missing.map(({ paper, place, file }) => `${paper} ${place} in ${file}`))]).toEqual([])
  })

  it('has no row that nothing cites', () => {
    const used = new Set(citations.map(({ paper, place }) => `${paper} ${place}`))
    const unused = [...rows].flatMap(([paper, places]) => [...places].map((place) => `${paper} ${place}`))
    expect(unused.filter((row) => !used.has(row))).toEqual([])
  })
})

/** The first cells of the tables below each paper's heading; a cell may name several places. */
function rowsOf(markdown: string): Map<Paper, Set<string>> {
  const sections = markdown.split(/^## /m).slice(1)
  return new Map(
    papers.map((paper) => {
      const section = sections.find((text) => text.startsWith(`${paper}\n`)) ?? ''
      const cells = [...section.matchAll(/^\| ([^|]+) \|/gm)].map((match) => match[1]!)
      return [paper, new Set(cells.flatMap(placesIn))]
    }),
  )
}

/** A citation without a paper's name is of the paper whose folder the file is in, or else of the one named last before it. */
function citationsOf(path: string): Citation[] {
  const file = relative(root, path)
  const text = readFileSync(path, 'utf8').replace(/(RFC \d+|MQTT 3\.1\.1|\(3\.1\.1|2\.0\.0|Andes|v2,) §[\d.]+/g, '')
  return [...text.matchAll(placePattern)].flatMap((match) => {
    const before = text.slice(0, match.index)
    const next = new RegExp(`(${papers.join('|')})(?:['’]s|,|:)?[\\s*/#]*$`).exec(before)?.[1]
    const folder = papers.find((paper) => new RegExp(`\\b${paper}\\b`, 'i').test(file))
    const last = [...before.matchAll(new RegExp(papers.join('|'), 'g'))].at(-1)?.[0]
    const paper = (next ?? folder ?? last) as Paper | undefined
    return placesIn(match[0]).map((place) => ({ paper: paper ?? ('no paper' as Paper), place, file }))
  })
}
function placesIn(text: string): string[] {
  return [...text.matchAll(placePattern)].flatMap(([, kind, numbers, section]) => {
    if (section !== undefined) return sectionsOf(section)
    const dot = kind === 'Eq' || kind === 'Fig' ? '.' : ''
    return numbersOf(numbers!).map((one) => `${kind}${dot} ${one}`)
  })
}

/** '6, 12 to 14' → 6, 12, 13, 14. */
function numbersOf(text: string): string[] {
  return text.split(/, (?:and )?| and | or /).flatMap((part) => {
    const [first, last] = part.split(/ to |–/)
    if (last === undefined) return [part]
    return Array.from({ length: Number(last) - Number(first) + 1 }, (_, at) => `${Number(first) + at}`)
  })
}

/** 'V-C, D' → §V-C, §V-D. */
function sectionsOf(text: string): string[] {
  const [first, ...others] = text.split(', ')
  const chapter = first!.split('-')[0]
  return [`§${first}`, ...others.map((letter) => `§${chapter}-${letter}`)]
}

function textFiles(dir: string): string[] {
  return readdirSync(dir, { withFileTypes: true, recursive: true })
    .filter((entry) => entry.isFile() && /\.(ts|py|md|yaml)$/.test(entry.name))
    .map((entry) => join(entry.parentPath, entry.name))
    .filter((path) => !/docs\/(results|papers\.md|cli\.md)|papers\.test\.ts/.test(relative(root, path)))
}
