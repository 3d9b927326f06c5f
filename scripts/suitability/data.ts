import { existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import type { LabelledRequest } from './logistic-regression.ts'
import { ownExamples } from './own-examples.ts'

/** Categories of Spec-Bench and MT-bench that a list of independent points answers, or does not; others are unclear and left out. */
const categories: Readonly<Record<string, 0 | 1>> = {
  humanities: 1,
  qa: 0,
  rag: 0,
  translation: 0,
  summarization: 0,
  math_reasoning: 0,
  math: 0,
  coding: 0,
  reasoning: 0,
  extraction: 0,
  roleplay: 0,
  writing: 0,
}

/** A list of so many words suits; an answer of less than so many words does not; the rest of Self-Instruct is unclear. */
const listWords = 40
const shortWords = 30

/**
 * Weak labels of public questions with a free licence (Apache-2.0), and our own requests. No label by hand of Skeleton-of-Thought
 * is among them, and none of its questions.
 * @param data folder with the public sets
 */
export function trainingRequests(data: string): { source: string; examples: LabelledRequest[] }[] {
  return [
    { source: 'own phrases', examples: ownExamples() },
    { source: 'Spec-Bench and MT-bench', examples: readLines(join(data, 'spec-bench/question.jsonl')).flatMap(byCategory) },
    {
      source: 'Self-Instruct',
      examples: ['seed_tasks', 'user_oriented_instructions'].flatMap((name) =>
        readLines(join(data, `self-instruct/${name}.jsonl`)).flatMap(byAnswer),
      ),
    },
  ]
}

/** The labels by hand of Skeleton-of-Thought: tests only. Undefined where the folder lacks them. */
export function handLabels(data: string): Record<'vicuna' | 'wizardlm', LabelledRequest[]> | undefined {
  const read = (name: string) => readLines(join(data, `sot-router/${name}.jsonl`)) as unknown as LabelledRequest[]
  return existsSync(join(data, 'sot-router')) ? { vicuna: read('vicuna'), wizardlm: read('wizardlm') } : undefined
}

type Line = Readonly<Record<string, unknown>>

const readLines = (file: string): Line[] =>
  readFileSync(file, 'utf8')
    .trim()
    .split('\n')
    .map((line) => JSON.parse(line) as Line)

function byCategory({ category, turns }: Line): LabelledRequest[] {
  const label = categories[category as string]
  return label === undefined ? [] : [{ request: (turns as string[])[0]!, label }]
}

/** By the rule of Skeleton-of-Thought, applied to the answer that the set has: is it a list, and are its points long enough? */
function byAnswer({ instruction, instances }: Line): LabelledRequest[] {
  const { input, output } = (instances as { input: string; output: string }[])[0]!
  const request = [instruction as string, input].filter(Boolean).join('\n')
  const words = wordCount(output)
  const points = output.match(/^\s*(?:[-*•]|\d+[.)])\s*\S.*/gm) ?? []
  if (points.length >= 3 && words >= listWords && wordCount(points.join(' ')) >= 5 * points.length) return [{ request, label: 1 }]
  return words < shortWords ? [{ request, label: 0 }] : []
}

const wordCount = (text: string): number => text.split(/\s+/).filter(Boolean).length
