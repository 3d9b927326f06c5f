import { z } from 'zod'
import { AgentLimits } from '../../agent/limits.ts'
import { BridgeLimits } from '../../cloud-bridge/limits.ts'

/** docs/limits.md: every limit with its default. */
export function limitsPage(): string {
  return `# Limits

Generated from [cloud-bridge/limits.ts](../cloud-bridge/limits.ts) and [agent/limits.ts](../agent/limits.ts) by \`npm run docs\`.
No correct client reaches a default. Set a limit with \`--limit <name>=<number>\`, once for each; what the limits protect
against: [SECURITY.md](../SECURITY.md).

Fixed for both: 15 s from opening a connection to its first request (of MQTT, its CONNECT), and 60 s for a complete HTTP request; 262,144 values in
the JSON of a request, nested up to 64 levels; 4,096 messages of a conversation; 1,024 kept responses with
32 MiB, for an hour. Fixed for the bridge: 1,024 connections to each listener that wait
for a request; 120 s in which an HTTP client neither sends nor reads; 16 incomplete QoS 2 messages of an MQTT client, and 4,096 bytes of its packets
that publish nothing; 128 open files kept for databases, logs and outgoing connections.

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
