import { z } from 'zod'
import { AgentLimits } from '../../agent/limits.ts'
import { BridgeLimits } from '../../cloud-bridge/limits.ts'

/** docs/limits.md: every limit with its default. */
export function limitsPage(): string {
  return `# Limits

Generated from [cloud-bridge/limits.ts](../cloud-bridge/limits.ts) and [agent/limits.ts](../agent/limits.ts) by \`npm run docs\`.
No correct client reaches a default. Set a limit with \`--limit <name>=<number>\`, once for each; what the limits protect
against: [SECURITY.md](../SECURITY.md).

## The bridge

\`brim bridge run --limit mqttPacketBytes=65536\`

${tableOf(BridgeLimits)}

## The agent

\`brim agent run --limit apiBodyBytes=1048576\`

${tableOf(AgentLimits)}
`
}

function tableOf(limits: z.ZodObject): string {
  const { properties = {} } = z.toJSONSchema(limits, { io: 'input' })
  const rows = Object.entries(properties).map(([name, property]) => {
    const { default: fallback, description = '' } = property as { default?: number; description?: string }
    return `| \`${name}\` | ${fallback?.toLocaleString('en')} | ${description} |`
  })
  return ['| name | default | limit |', '| --- | ---: | --- |', ...rows].join('\n')
}
