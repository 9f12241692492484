// Package stream builds pipelines of typed stages that are joined by bounded queues.
package stream
