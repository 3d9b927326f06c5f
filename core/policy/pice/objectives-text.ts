import { metricNames, type Objective } from './objectives.ts'

/** Objectives from a text like `throughput=0.1,latency`, where a tolerance of 0 may be left out; undefined: it is none. */
export function parseObjectives(text: string): readonly Objective[] | undefined {
  const objectives: Objective[] = []
  for (const part of text.split(',')) {
    const [, name, tolerance = '0'] = /^\s*([A-Za-z]+)(?:=(\d+(?:\.\d+)?))?\s*$/.exec(part) ?? []
    const metric = metricNames.find((each) => each === name)
    if (!metric || objectives.some((each) => each.metric === metric)) return undefined
    objectives.push({ metric, tolerance: Number(tolerance) })
  }
  return objectives
}

export const objectivesText = (objectives: readonly Objective[]): string =>
  objectives.map(({ metric, tolerance }) => (tolerance === 0 ? metric : `${metric}=${tolerance}`)).join(',')
